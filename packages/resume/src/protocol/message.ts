import { resourceTag } from "@sluice/core";

/** Id of a JSON-RPC request. */
export type RpcId = string | number;

/** A JSON-RPC message, as far as streams of events have to know it. */
export interface RpcMessage {
  readonly jsonrpc: "2.0";
  readonly id?: RpcId;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** A request. */
export type RpcRequest = RpcMessage & Required<Pick<RpcMessage, "id" | "method">>;

/** A response, to whichever side. */
export type RpcResponse = RpcMessage & Required<Pick<RpcMessage, "id">>;

/** True for a request of either side. */
export function isRequest(message: unknown): message is RpcRequest {
  return isMessage(message) && typeof message.method === "string" && isId(message.id);
}

/** True for a response: exactly one of a result and an error, and no method. */
export function isResponse(message: unknown): message is RpcResponse {
  if (!isMessage(message) || !isId(message.id) || message.method !== undefined) return false;
  return "result" in message !== "error" in message;
}

/** Id of the request that a notification cancels. */
export function cancelledBy(message: unknown): RpcId | undefined {
  if (!isMessage(message) || message.method !== "notifications/cancelled") return undefined;
  const id = message.params?.["requestId"];
  return isId(id) ? id : undefined;
}

/** Kept as the answer to a question that the server withdrew: none is awaited any more. */
export const noAnswer = "";

/** The messages in a body: one, or those of a batch. */
export function messagesIn(body: unknown): readonly unknown[] {
  return Array.isArray(body) ? body : [body];
}

/** Name of the question that a request with this id asks, for an event store; 5 and "5" are two. */
export function askName(id: RpcId): string {
  const text = JSON.stringify(id);
  return /^[\x21-\x7e]{1,100}$/.test(text) ? text : `#${resourceTag(text)}`;
}

/** A response as it is kept, the same for the same content. */
export function answerText({ result, error }: RpcResponse): string {
  return JSON.stringify(error === undefined ? { result } : { error });
}

function isMessage(message: unknown): message is RpcMessage {
  return typeof message === "object" && message !== null && !Array.isArray(message);
}

function isId(id: unknown): id is RpcId {
  return typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
}
