import type { JSONRPCRequest, JSONRPCResponse, RequestId } from "@modelcontextprotocol/client";
import { keyOf } from "@sluice/core/internal";
import { SendError } from "../upstream/send-fault.ts";
import type { ServerLink } from "../upstream/server-link.ts";
import { keyIn, onlyKey } from "../messages/ids.ts";
import { answerTo, codes, refusal } from "../messages/messages.ts";
import { wordsOf } from "../messages/error-words.ts";

/** A request of the host that waits for the server. */
export interface OpenCall {
  /** As the host sent it. */
  readonly request: JSONRPCRequest;
  readonly serverId: RequestId;
  /** Ends it: over HTTP its stream is closed. */
  readonly abort: AbortController;
  /** The server has it. Until then the link tries again by itself. */
  isSent: boolean;
}

/** The calls of the host that the server works on. Each is answered exactly once, or was cancelled. */
export class OpenCalls {
  readonly #calls = new Map<string, OpenCall>();
  readonly #link: ServerLink;
  readonly #max: number;
  readonly #toHost: (response: JSONRPCResponse) => void;

  constructor(link: ServerLink, max: number, toHost: (response: JSONRPCResponse) => void) {
    this.#link = link;
    this.#max = max;
    this.#toHost = toHost;
  }

  /** Enters a call. Undefined when too many are open: then it is answered with an error. */
  begin(request: JSONRPCRequest, serverId: RequestId = request.id): OpenCall | undefined {
    if (this.#calls.size >= this.#max) {
      const message = `More than ${this.#max} calls are open. Wait for one of them.`;
      this.#toHost(refusal(request.id, codes.noConnection, message, { retryable: true }));
      return undefined;
    }
    const call = { request, serverId, abort: new AbortController(), isSent: false };
    this.#calls.set(keyOf(serverId), call);
    return call;
  }

  /** Sends `outgoing` for a call; a fault becomes the response. */
  send(call: OpenCall, outgoing: JSONRPCRequest): void {
    const onEnd = (): void => this.fail(call, "the connection ended", true);
    const sending = this.#link.send(outgoing, { signal: call.abort.signal, onEnd });
    const delivery = sending.then(() => {
      call.isSent = true;
      return undefined;
    });
    delivery.catch((error: unknown) => {
      if (call.abort.signal.aborted) return;
      if (!(error instanceof SendError)) {
        this.fail(call, wordsOf(error), false);
        return;
      }
      const { fault } = error;
      if (fault.kind === "answered") this.#answer(call, answerTo(call.request.id, fault));
      else if (fault.kind === "refused") this.#refuse(call, fault.reason);
      else this.fail(call, fault.reason, fault.kind === "lost");
    });
  }

  /**
   * The call that the server knows by `serverId`, which is over with that. An error without an id is for the only call that
   * is open.
   */
  take(serverId: unknown): OpenCall | undefined {
    const key = keyIn(this.#calls, serverId) ?? onlyKey(this.#calls, serverId);
    const call = key === undefined ? undefined : this.#calls.get(key);
    if (key !== undefined) this.#calls.delete(key);
    return call;
  }

  get(serverId: unknown): OpenCall | undefined {
    return this.#calls.get(keyIn(this.#calls, serverId) ?? "");
  }

  cancel(serverId: unknown): void {
    this.take(serverId)?.abort.abort(new Error("the host cancelled it"));
  }

  /** Answers a call with an error that says whether it may be repeated. `mayHaveRun`: the server had it. */
  fail(call: OpenCall, reason: string, mayHaveRun: boolean): void {
    const { id } = call.request;
    const isRepeatable = !mayHaveRun || this.#link.repeatable.has(call.request);
    const advice = isRepeatable
      ? "It can be repeated."
      : "It may have run: find out before you repeat it.";
    const message = `No answer from ${this.#link.name} (${reason}). ${advice}`;
    this.#answer(call, refusal(id, codes.noConnection, message, { retryable: isRepeatable }));
  }

  /** The server did not take the call, and would not take it again. */
  #refuse(call: OpenCall, reason: string): void {
    const message = `${this.#link.name} refused the call: ${reason}. It did not run.`;
    const data = { retryable: false };
    this.#answer(call, refusal(call.request.id, codes.noConnection, message, data));
  }

  /** Answers every call that was sent on a connection that is gone. */
  failAll(reason: string): void {
    for (const call of this.#calls.values()) {
      if (!call.isSent) continue;
      this.fail(call, reason, true);
      call.abort.abort(new Error(reason));
    }
  }

  /** The newest call for which `test` holds. */
  newest(test: (call: OpenCall) => boolean): OpenCall | undefined {
    return [...this.#calls.values()].findLast(test);
  }

  #answer(call: OpenCall, response: JSONRPCResponse): void {
    const key = keyOf(call.serverId);
    if (this.#calls.get(key) !== call) return;
    this.#calls.delete(key);
    this.#toHost(response);
  }
}
