import type { JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import { keyOf } from "@sluice/core";
import { onAbort, within, type Deadline } from "@sluice/core/async";
import { defer, type Deferred } from "../messages/deferred.ts";
import { SendError } from "./send-fault.ts";

/** How a message is sent. */
export interface MessageOptions {
  /** Ends the request, over HTTP by closing its stream. */
  readonly signal?: AbortSignal | undefined;
  /** The stream of this request has ended, after an answer or without one. */
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
    const waiting = defer<JSONRPCResponse>();
    this.#waiting.set(key, waiting);
    const stop = new AbortController();
    const onEnd = (): void =>
      waiting.reject(new SendError({ kind: "lost", reason: "the answer did not come" }));
    const removeListener = onAbort(signal, (reason) => waiting.reject(reason));
    send({ signal: stop.signal, onEnd }).catch((error: unknown) => waiting.reject(error));
    try {
      return await within(waiting.promise, deadline);
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
    const waiting = this.#waiting.get(keyOf(response.id));
    waiting?.resolve(response);
    return waiting !== undefined;
  }

  /** Rejects all: their connection is gone. */
  failAll(reason: string): void {
    for (const waiting of this.#waiting.values())
      waiting.reject(new SendError({ kind: "lost", reason }));
  }
}
