import { JsonDepthError, parseJson } from "./parse-json.ts";

/** A JSON-RPC 2.0 request; without an id, a notification. */
export interface RpcCall {
  readonly jsonrpc: "2.0";
  readonly id?: string | number;
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** A JSON-RPC 2.0 response: a result, or an error, whose id is `null` where the request could not be read. */
export interface RpcResponse {
  readonly jsonrpc: "2.0";
  readonly id?: string | number | null;
  readonly method?: never;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** One message as MCP sends it. What is in its params or result is for the SDK to check. */
export type RpcMessage = RpcCall | RpcResponse;

/** Why a text is not read, as the JSON-RPC error that says so. */
export interface MessageFault {
  /** -32700: no JSON, or nested deeper than 128 levels. -32600: JSON, but not one JSON-RPC message. */
  readonly code: -32700 | -32600;
  readonly message: string;
}

/** JSON of another party, or what is wrong with it. */
export type ReadJson =
  | { readonly value: unknown; readonly fault?: never }
  | { readonly fault: MessageFault; readonly value?: never };

/** A message of another party, or what is wrong with it. */
export type ReadRpc =
  | { readonly message: RpcMessage; readonly fault?: never }
  | { readonly fault: MessageFault; readonly message?: never };

/**
 * Reads JSON of another party. The text is checked for its depth before it is parsed; its length is for the
 * transport to bound. A fault never quotes the text.
 */
export function readJson(text: string): ReadJson {
  try {
    return { value: parseJson(text) };
  } catch (error) {
    return { fault: error instanceof JsonDepthError ? tooDeep : notJson };
  }
}

/**
 * Reads a text as one JSON-RPC message. Batches are a fault: revision 2025-06-18 took them out of MCP. Where an
 * SDK still answers them, as over HTTP, read with {@link readJson}.
 */
export function readRpc(text: string): ReadRpc {
  const { value, fault } = readJson(text);
  if (fault) return { fault };
  return isRpcMessage(value) ? { message: value } : { fault: notJsonRpc };
}

/** True for one well-formed message: the members that JSON-RPC 2.0 names, as MCP narrows them. */
function isRpcMessage(value: unknown): value is RpcMessage {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return false;
  const { id, method, params, result, error } = value;
  const isIdentified = typeof id === "string" || Number.isSafeInteger(id);
  if (method !== undefined)
    return (
      typeof method === "string" &&
      (id === undefined || isIdentified) &&
      (params === undefined || isObject(params)) &&
      result === undefined &&
      error === undefined
    );
  if (error === undefined) return isIdentified && isObject(result);
  return (
    result === undefined &&
    (isIdentified || id === undefined || id === null) &&
    isObject(error) &&
    Number.isSafeInteger(error["code"]) &&
    typeof error["message"] === "string"
  );
}

/**
 * True for everything that names a method, well-formed or not. Layers that filter calls use this wider rule: an SDK
 * takes more than {@link readRpc}, and no call may pass a filter by being odd.
 */
export function namesMethod(value: unknown): value is RpcCall {
  return isObject(value) && typeof value["method"] === "string";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const notJson: MessageFault = { code: -32_700, message: "Parse error: Invalid JSON" };
const tooDeep: MessageFault = {
  code: -32_700,
  message: "Parse error: nested deeper than 128 levels",
};
const notJsonRpc: MessageFault = {
  code: -32_600,
  message: "Invalid Request: one JSON-RPC 2.0 message, no batches",
};
