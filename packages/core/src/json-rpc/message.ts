/** Id of a JSON-RPC request. */
export type RpcId = string | number;

/** A JSON-RPC message of which only the kind is known: its members are not checked. */
export interface LooseMessage {
  readonly jsonrpc?: unknown;
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** A request of either side. */
export interface LooseRequest extends LooseMessage {
  readonly id: RpcId;
  readonly method: string;
}

/** A response of either side. */
export interface LooseResponse extends LooseMessage {
  readonly id: RpcId;
}

/** True for a request of either side. */
export function isRequest(message: unknown): message is LooseRequest {
  return isMessage(message) && typeof message.method === "string" && isId(message.id);
}

/** True for a response of either side: it has a result or an error, and no method. */
export function isResponse(message: unknown): message is LooseResponse {
  if (!isMessage(message) || message.method !== undefined || !isId(message.id)) return false;
  return "result" in message || "error" in message;
}

/** Id of the request that a notification cancels. */
export function cancelledBy(message: unknown): RpcId | undefined {
  if (!isMessage(message) || message.method !== "notifications/cancelled") return undefined;
  const id = message.params?.["requestId"];
  return isId(id) ? id : undefined;
}

/** Key of an id: 5 and "5" are two. */
export function keyOf(id: unknown): string {
  return JSON.stringify(id) ?? "";
}

function isMessage(message: unknown): message is LooseMessage {
  return typeof message === "object" && message !== null && !Array.isArray(message);
}

function isId(id: unknown): id is RpcId {
  return typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
}
