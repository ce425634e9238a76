import { parseJson } from "@sluice/core";
import { isObject } from "../content/negotiation.ts";

/** A single JSON-RPC message that names a method. */
export interface RpcCall {
  readonly jsonrpc: "2.0";
  readonly id?: string | number;
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** The call in a JSON text; `undefined` for answers, batches and everything else. */
export function callOf(text: string): RpcCall | undefined {
  try {
    const message: unknown = parseJson(text);
    return isCall(message) ? message : undefined;
  } catch {
    return undefined;
  }
}

/** True for a JSON-RPC request or notification. */
export function isCall(message: unknown): message is RpcCall {
  return isObject(message) && message["jsonrpc"] === "2.0" && typeof message["method"] === "string";
}

/** True for the answer to a request. */
export function isAnswerTo(message: unknown, { id }: RpcCall): boolean {
  return (
    isObject(message) &&
    message["method"] === undefined &&
    id !== undefined &&
    message["id"] === id &&
    ("result" in message || "error" in message)
  );
}

/** True for the requests that are answered with the server's capabilities. */
export function opensExchange({ method }: RpcCall): boolean {
  return method === "initialize" || method === "server/discover";
}
