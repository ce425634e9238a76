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

/** One row of the error table. */
export interface ErrorRow {
  readonly reason: Reason;
  /** The only text that goes over the wire. */
  readonly message: string;
  /** JSON-RPC code towards a peer of each kind of protocol revision. */
  readonly legacy: number;
  readonly modern: number;
  /** What a receiver makes of it. */
  readonly code: SluiceErrorCode;
}

/**
 * JSON-RPC errors by protocol revision (docs/protocol.md, table 5). `modern` forbids −32002 and keeps
 * −32020…−32099 for the specification, hence two columns.
 */
export const errorTable: readonly ErrorRow[] = [
  {
    reason: "not_found",
    message: "Resource not found",
    legacy: -32002,
    modern: -32602,
    code: "not_found",
  },
  {
    reason: "stream_unsupported",
    message: "Stream not supported",
    legacy: -32003,
    modern: -25323,
    code: "unsupported",
  },
  {
    reason: "too_large",
    message: "Resource too large",
    legacy: -32004,
    modern: -25324,
    code: "too_large",
  },
  {
    reason: "forbidden",
    message: "Permission denied",
    legacy: -32603,
    modern: -25325,
    code: "permission_denied",
  },
  {
    reason: "busy",
    message: "Busy, try again later",
    legacy: -32603,
    modern: -25326,
    code: "throttled",
  },
  {
    reason: "client_capability",
    message: "The client did not declare resourceStreaming",
    legacy: -32600,
    modern: -32021,
    code: "unsupported",
  },
  {
    reason: "invalid",
    message: "Invalid params",
    legacy: -32602,
    modern: -32602,
    code: "invalid_argument",
  },
  {
    reason: "internal",
    message: "Internal error",
    legacy: -32603,
    modern: -32603,
    code: "internal",
  },
  {
    reason: "interrupted",
    message: "Interrupted, send the request again",
    legacy: -32603,
    modern: -32603,
    code: "interrupted",
  },
];
