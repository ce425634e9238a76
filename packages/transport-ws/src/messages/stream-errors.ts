import { errorTable, STREAM_METHOD } from "@sluice/core/wire";
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/server";

/**
 * Gives errors of `resources/stream` on one connection of the legacy era the numbers that they have over HTTP: the SDK sends
 * -32602 for every -32002 that a handler throws. A class because there are thousands of connections.
 */
export class StreamErrors {
  /** Calls without an answer; made with the first one. */
  #calls: Set<RequestId> | undefined;

  /** Sees each message of the client. */
  note(message: JSONRPCMessage): void {
    if (!("method" in message)) return;
    if (message.method === "notifications/cancelled")
      this.#calls?.delete(message.params?.["requestId"] as RequestId);
    else if ("id" in message && message.method === STREAM_METHOD)
      (this.#calls ??= new Set()).add(message.id);
  }

  /** Sees each message to the client, and gives what to send. */
  number(message: JSONRPCMessage): JSONRPCMessage {
    if ("method" in message || !this.#calls?.delete(message.id!)) return message;
    if (!("error" in message)) return message;
    const { error } = message;
    const { reason } = (error.data ?? {}) as { reason?: unknown };
    if (reason !== "not_found") return message;
    return { ...message, error: { ...error, code: errorTable.not_found.legacy } };
  }
}
