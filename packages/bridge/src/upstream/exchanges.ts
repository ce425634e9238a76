import type { JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import { type Deadline, defer, type Deferred, keyOf, onAbort, within } from "@sluice/core/internal";
import { keyIn, onlyKey } from "../messages/ids.ts";
import { SendError } from "./send-fault.ts";

/** What a message is sent with. */
export interface MessageOptions {
  /** Ends the request, over HTTP by closing its stream. */
  readonly signal?: AbortSignal | undefined;
  /** The stream of this request has ended, after a response or without one. */
  readonly onEnd?: (() => void) | undefined;
}

/** Requests of the bridge itself that wait for their responses. */
export class Exchanges {
  readonly #waiting = new Map<string, Deferred<JSONRPCResponse>>();

  /**
   * Sends a request and resolves with its response. Rejects when it cannot come, at the deadline, and when `signal`
   * aborts; each ends the request.
   */
  async run(
    { id }: JSONRPCRequest,
    deadline: Deadline,
    signal: AbortSignal | undefined,
    send: (options: MessageOptions) => Promise<void>,
  ): Promise<JSONRPCResponse> {
    const key = keyOf(id);
    const pending = defer<JSONRPCResponse>();
    this.#waiting.set(key, pending);
    const stop = new AbortController();
    const onEnd = (): void =>
      pending.reject(new SendError({ kind: "lost", reason: "the answer did not come" }));
    const removeListener = onAbort(signal, (reason) => pending.reject(reason));
    send({ signal: stop.signal, onEnd }).catch((error: unknown) => pending.reject(error));
    try {
      return await within(pending.promise, deadline);
    } catch (error) {
      stop.abort(error);
      throw error;
    } finally {
      removeListener();
      this.#waiting.delete(key);
    }
  }

  /** Takes the response to one of the requests. False for any other. */
  take(response: JSONRPCResponse): boolean {
    const key = keyIn(this.#waiting, response.id) ?? onlyKey(this.#waiting, response.id);
    const pending = this.#waiting.get(key ?? "");
    pending?.resolve(response);
    return pending !== undefined;
  }

  /** Rejects all: their connection is gone. */
  failAll(reason: string): void {
    for (const waiting of this.#waiting.values())
      waiting.reject(new SendError({ kind: "lost", reason }));
  }
}
