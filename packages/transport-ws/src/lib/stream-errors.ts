import { errorTable, STREAM_METHOD } from "@sluice/core/wire";
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/server";

/** Gives errors of `resources/stream` the numbers that they have over HTTP in the same revision. */
export interface StreamErrors {
  /** Sees each message of the client. */
  note(message: JSONRPCMessage): void;
  /** Sees each message to the client, and gives what to send. */
  number(message: JSONRPCMessage): JSONRPCMessage;
}

const notFound = errorTable.find(({ reason }) => reason === "not_found")!;

/** For one connection of the legacy era: the SDK sends -32602 for every -32002 that a handler throws. */
export function createStreamErrors(): StreamErrors {
  const calls = new Set<RequestId>();
  return {
    note(message) {
      if (!("method" in message)) return;
      if (message.method === "notifications/cancelled")
        calls.delete(message.params?.["requestId"] as RequestId);
      else if ("id" in message && message.method === STREAM_METHOD) calls.add(message.id);
    },
    number(message) {
      if ("method" in message || !calls.delete(message.id!) || !("error" in message))
        return message;
      const { error } = message;
      const { reason } = (error.data ?? {}) as { reason?: unknown };
      if (reason !== notFound.reason) return message;
      return { ...message, error: { ...error, code: notFound.legacy } };
    },
  };
}
