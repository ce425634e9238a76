import { ProtocolError } from "@modelcontextprotocol/server";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, errorTable, type Reason, type RevisionKind } from "@sluice/core/internal";
import { hiddenFault } from "./storage-fault.ts";

/** A JSON-RPC error as it goes over the wire, and the HTTP response around it. */
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

/** A longer URI is not sent back. */
const maxUriLength = 2_048;

/** Thrown with the exact fault, where the error table alone does not say it. */
export class FaultError extends Error {
  readonly fault: RpcFault;
  constructor(fault: RpcFault) {
    super(fault.message);
    this.fault = fault;
  }
}

export interface RpcFaultDetails {
  readonly uri?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly suggestion?: string | undefined;
  /** Goes into the message, which is all that most hosts show. */
  readonly hint?: string | undefined;
  readonly status?: number;
  readonly challenge?: string;
}

/** The row of the error table for a reason, towards one protocol revision. */
export function rpcFault(
  reason: Reason,
  revision: RevisionKind,
  details: RpcFaultDetails = {},
): RpcFault {
  const row = errorTable[reason];
  const { uri, retryAfterMs, suggestion, hint, status, challenge } = details;
  const isUndeclared = reason === "client_capability" && revision === "modern";
  return {
    status: status ?? (isUndeclared ? 400 : 200),
    code: row[revision],
    message: hint === undefined ? row.message : `${row.message}. ${hint}`,
    data: definedMembers({
      reason,
      uri: uri !== undefined && uri.length > maxUriLength ? undefined : uri,
      retryAfterMs,
      suggestion,
      // MCP 2026-07-28 names the missing capability beside its code
      requiredCapabilities: isUndeclared ? { resourceStreaming: {} } : undefined,
    }),
    ...definedMembers({ challenge }),
  };
}

/** A bearer challenge (RFC 6750 §3, RFC 9728 §5.1). */
export function formatChallenge(resourceMetadataUrl: string | undefined): string {
  return resourceMetadataUrl === undefined
    ? "Bearer"
    : `Bearer resource_metadata="${encodeURI(resourceMetadataUrl)}"`;
}

/**
 * The response to a caller that has to sign in: 401 with a challenge, which makes SDKs start the sign-in (RFC 9728
 * §5.1).
 */
export function signInFault(
  resourceMetadataUrl: string | undefined,
  revision: RevisionKind,
): RpcFault {
  const challenge = formatChallenge(resourceMetadataUrl);
  return rpcFault("forbidden", revision, { status: 401, challenge });
}

/** The fault for something that was thrown: its code becomes a reason; nothing else of it reaches the client. */
export function faultOf(
  error: unknown,
  revision: RevisionKind,
  details: RpcFaultDetails = {},
): RpcFault {
  if (error instanceof FaultError) return error.fault;
  if (!SluiceError.is(error)) return rpcFault("internal", revision, details);
  const reason = reasons[error.code] ?? "internal";
  if (reason !== "busy") return rpcFault(reason, revision, details);
  const { retryAfterMs } = error;
  // most hosts show the message only
  const hint = retryAfterMs === undefined ? undefined : `Wait ${Math.ceil(retryAfterMs / 1_000)} s`;
  return rpcFault(reason, revision, { ...details, retryAfterMs, hint });
}

const reasons: Readonly<Partial<Record<SluiceErrorCode, Reason>>> = {
  not_found: "not_found",
  invalid_argument: "invalid",
  permission_denied: "forbidden",
  unauthenticated: "forbidden",
  unsupported: "stream_unsupported",
  too_large: "too_large",
  throttled: "busy",
  unavailable: "busy",
  timeout: "busy",
};

/** Outcome of an operation that an error ended, for records: a refusal, or a fault of the server or of storage. */
export function outcomeOf(error: unknown): "denied" | "failed" {
  if (error instanceof FaultError || isRefusal(error)) return "denied";
  return SluiceError.is(error) && !ownFaults.has(error.code) ? "denied" : "failed";
}

const ownFaults: ReadonlySet<string> = new Set([
  "internal",
  "timeout",
  "unavailable",
  "interrupted",
  "corrupt",
  "protocol",
]);

/** True for an error by which a handler of the author's refuses. */
function isRefusal(error: unknown): boolean {
  return error instanceof ProtocolError && error.code !== errorTable.internal.modern;
}

/** Why an operation was refused or failed, for records: an error code, the reason of a fault, `hidden` or `refused`. */
export function reasonOf(error: unknown): string {
  if (error === hiddenFault) return "hidden";
  if (error instanceof FaultError) return error.fault.data.reason;
  if (isRefusal(error)) return "refused";
  return SluiceError.is(error) ? error.code : "internal";
}
