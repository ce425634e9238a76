import { SluiceError } from "@sluice/core";
import { errorTable, type Era, type Reason } from "@sluice/core/wire";

/** A JSON-RPC error as it goes over the wire, and the HTTP answer around it. */
export interface RpcFault {
  /** HTTP status; 200 for most, since the exchange itself went well. */
  readonly status: number;
  readonly code: number;
  readonly message: string;
  readonly data: {
    readonly reason: Reason;
    readonly uri?: string;
    readonly retryAfterMs?: number;
    readonly suggestion?: string;
    readonly requiredCapabilities?: Readonly<Record<string, unknown>>;
  };
  /** `WWW-Authenticate`, with 401 and 403. */
  readonly challenge?: string;
}

/** What a fault tells beside its reason. */
export interface RpcFaultDetails {
  readonly uri?: string;
  readonly retryAfterMs?: number | undefined;
  readonly suggestion?: string;
  readonly status?: number;
  readonly challenge?: string;
}

/** The row of the error table for a reason, towards one era. */
export function rpcFault(reason: Reason, era: Era, details: RpcFaultDetails = {}): RpcFault {
  const row = errorTable.find((each) => each.reason === reason)!;
  const { uri, retryAfterMs, suggestion, status, challenge } = details;
  return {
    status: status ?? (reason === "client_capability" && era === "modern" ? 400 : 200),
    code: row[era],
    message: row.message,
    data: {
      reason,
      ...(uri !== undefined && { uri }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      ...(suggestion !== undefined && { suggestion }),
      // MCP 2026-07-28 names what is missing beside its code for that
      ...(reason === "client_capability" &&
        era === "modern" && { requiredCapabilities: { resourceStreaming: {} } }),
    },
    ...(challenge !== undefined && { challenge }),
  };
}

/** The fault for something that was thrown: causes become reasons, and nothing else of it goes out. */
export function faultOf(error: unknown, era: Era, details: RpcFaultDetails = {}): RpcFault {
  if (!SluiceError.is(error)) return rpcFault("internal", era, details);
  const reason = reasonOf(error);
  return rpcFault(reason, era, {
    ...details,
    ...(reason === "busy" && { retryAfterMs: error.retryAfterMs }),
  });
}

function reasonOf(error: SluiceError): Reason {
  switch (error.code) {
    case "not_found":
    case "invalid_argument":
      return error.code === "not_found" ? "not_found" : "invalid";
    case "permission_denied":
    case "unauthenticated":
      return "forbidden";
    case "unsupported":
      return "stream_unsupported";
    case "too_large":
      return "too_large";
    case "throttled":
    case "unavailable":
    case "timeout":
      return "busy";
    default:
      return "internal";
  }
}
