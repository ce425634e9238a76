// JSON-RPC errors.
import type { SluiceErrorCode } from "../errors/error.ts";

/** `error.data.reason` of every JSON-RPC error we emit; clients switch on it before the number. */
export type Reason =
  | "not_found"
  | "stream_unsupported"
  | "too_large"
  | "forbidden"
  | "busy"
  | "client_capability"
  | "invalid"
  | "internal"
  | "interrupted";

/** One row of {@link errorTable}. */
export interface ErrorRow {
  /** `error.message`, the only text that goes over the wire. */
  readonly message: string;
  /** `error.code` towards a peer of a revision with sessions. */
  readonly legacy: number;
  /** `error.code` towards a peer of a stateless revision. */
  readonly modern: number;
  /** The code that a receiver makes of it. */
  readonly code: SluiceErrorCode;
}

/**
 * JSON-RPC errors by reason (docs/protocol/streaming.md, “Errors”). `modern` forbids −32002 and keeps
 * −32020…−32099 for the specification, hence two columns.
 */
export const errorTable: Readonly<Record<Reason, ErrorRow>> = {
  not_found: { message: "Resource not found", legacy: -32002, modern: -32602, code: "not_found" },
  stream_unsupported: {
    message: "Stream not supported",
    legacy: -32003,
    modern: -25323,
    code: "unsupported",
  },
  too_large: { message: "Resource too large", legacy: -32004, modern: -25324, code: "too_large" },
  forbidden: {
    message: "Permission denied",
    legacy: -32603,
    modern: -25325,
    code: "permission_denied",
  },
  busy: { message: "Busy, try again later", legacy: -32603, modern: -25326, code: "throttled" },
  client_capability: {
    message: "The client did not declare resourceStreaming",
    legacy: -32600,
    modern: -32021,
    code: "unsupported",
  },
  invalid: { message: "Invalid params", legacy: -32602, modern: -32602, code: "invalid_argument" },
  internal: { message: "Internal error", legacy: -32603, modern: -32603, code: "internal" },
  interrupted: {
    message: "Interrupted, send the request again",
    legacy: -32603,
    modern: -32603,
    code: "interrupted",
  },
};
