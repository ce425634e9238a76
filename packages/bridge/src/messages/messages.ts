import type {
  JSONRPCErrorResponse,
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResponse,
  RequestId,
} from "@modelcontextprotocol/client";

/** Members of a JSON object that is only partly known. */
export type Members = Readonly<Record<string, unknown>>;

/** What a request is answered with. */
export type Answer =
  | { readonly result: Members; readonly error?: never }
  | { readonly error: JSONRPCErrorResponse["error"]; readonly result?: never };

/** True for a request of either side. */
export function isCall(message: JSONRPCMessage): message is JSONRPCRequest {
  return "method" in message && "id" in message && message.id !== undefined;
}

/** True for a notification of either side. */
export function isNotice(message: JSONRPCMessage): message is JSONRPCNotification {
  return "method" in message && !isCall(message);
}

/** True for a response of either side. */
export function isAnswer(message: JSONRPCMessage): message is JSONRPCResponse {
  return !("method" in message);
}

/** A response that carries `answer`. */
export function answerTo(id: RequestId, answer: Answer): JSONRPCResponse {
  return answer.error
    ? { jsonrpc: "2.0", id, error: answer.error }
    : { jsonrpc: "2.0", id, result: answer.result };
}

/** The result or the error of a response. */
export function answerOf(response: JSONRPCResponse): Answer {
  return "error" in response ? { error: response.error } : { result: response.result };
}

/** A response with an error. */
export function refusal(
  id: RequestId,
  code: number,
  message: string,
  data?: unknown,
): JSONRPCErrorResponse {
  const error = data === undefined ? { code, message } : { code, message, data };
  return { jsonrpc: "2.0", id, error };
}

/** `value` where it is an object, else an object without members. */
export function membersOf(value: unknown): Members {
  return isMembers(value) ? value : {};
}

/** True for an object that is not an array. */
export function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** JSON-RPC codes that the bridge uses. */
export const codes = {
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  /** The connection ended, or there was none. The official SDKs use it for that, too. */
  noConnection: -32_000,
  /** 2026-07-28: the revision of a request is not served. */
  unsupportedRevision: -32_022,
  /** 2026-07-28: the client did not declare what the request needs. */
  missingCapability: -32_021,
  /** 2026-07-28: a header field is not what the body says. */
  headerMismatch: -32_020,
} as const;
