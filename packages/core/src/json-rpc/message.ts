/** A JSON-RPC message, as far as streams of events have to know it. */
export interface RpcMessage {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** True for a request of either side. */
export function isRequest(message: unknown): message is RpcMessage {
  return isMessage(message) && typeof message.method === "string" && isId(message.id);
}

/** True for a response of either side. */
export function isResponse(message: unknown): message is RpcMessage {
  if (!isMessage(message) || message.method !== undefined || !isId(message.id)) return false;
  return "result" in message || "error" in message;
}

/** Key of an id: 5 and "5" are two. */
export function keyOf(id: unknown): string {
  return JSON.stringify(id) ?? "";
}

/** Key of the request that a notification cancels. */
export function cancelledBy(message: unknown): string | undefined {
  const { method, params } = (message ?? {}) as RpcMessage;
  return method === "notifications/cancelled" ? keyOf(params?.["requestId"]) : undefined;
}

function isMessage(message: unknown): message is RpcMessage {
  return typeof message === "object" && message !== null && !Array.isArray(message);
}

function isId(id: unknown): boolean {
  return typeof id === "string" || typeof id === "number";
}
