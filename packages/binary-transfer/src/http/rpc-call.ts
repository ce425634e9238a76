import { readRpc, type RpcCall, type RpcMessage } from "@sluice/core";

/** The call in a JSON text; `undefined` for responses, batches and everything else. */
export function callOf(text: string): RpcCall | undefined {
  const { message } = readRpc(text);
  return message && isCall(message) ? message : undefined;
}

function isCall(message: RpcMessage): message is RpcCall {
  return message.method !== undefined;
}

/** True for the response to the request `id`. */
export function isAnswerTo(message: unknown, { id }: Pick<RpcCall, "id">): boolean {
  if (typeof message !== "object" || message === null || id === undefined) return false;
  const { method, id: answered } = message as Partial<RpcMessage>;
  return method === undefined && answered === id && ("result" in message || "error" in message);
}

/** True for the requests that are answered with the server's capabilities. */
export function opensExchange({ method }: RpcCall): boolean {
  return method === "initialize" || method === "server/discover";
}
