import { cancelledBy } from "@sluice/core";
import { errorTable, EXTENSION_ID, STREAM_METHOD } from "@sluice/core/wire";
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/server";

/**
 * Says what a legacy client declared in the literal field of SEP-2532 again as an extension, which
 * the SDK passes on: it drops the field itself.
 */
export function literalCapabilities<Message extends object>(message: Message): Message {
  const { method, params } = message as { method?: unknown; params?: { capabilities?: unknown } };
  if (method !== "initialize") return message;
  const { resourceStreaming, extensions, ...others } = (params?.capabilities ?? {}) as {
    resourceStreaming?: unknown;
    extensions?: Record<string, unknown>;
  };
  if (resourceStreaming === undefined || extensions?.[EXTENSION_ID] !== undefined) return message;
  const capabilities = {
    ...others,
    extensions: { ...extensions, [EXTENSION_ID]: resourceStreaming },
  };
  return { ...message, params: { ...params, capabilities } };
}

/**
 * Gives errors of `resources/stream` on one legacy connection the numbers that they have over HTTP: the SDK sends
 * -32602 for every -32002 that a handler throws. A class because there are thousands of connections.
 */
export class StreamErrors {
  /** Calls without an answer; made with the first one. */
  #calls: Set<RequestId> | undefined;

  /** Sees each message of the client. */
  note(message: JSONRPCMessage): void {
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) this.#calls?.delete(cancelled);
    if ("method" in message && "id" in message && message.method === STREAM_METHOD)
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
