import type { RestError } from "@azure/storage-blob";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, parseContentRange, parseRetryAfter } from "@sluice/core/internal";
import { staleConnection } from "@sluice/core/internal/node";

type AzureMeaning = readonly [code: SluiceErrorCode, text: string];

const missing: AzureMeaning = ["not_found", "there is no such blob"];
const refusal: AzureMeaning = ["unauthenticated", "the service refuses the credentials"];
const denied: AzureMeaning = ["permission_denied", "the credentials do not allow that"];
const badName: AzureMeaning = ["invalid_argument", "the service refuses the name or a parameter"];
const changed: AzureMeaning = ["precondition_failed", "the blob has changed"];
const archived: AzureMeaning = [
  "unsupported",
  "the blob is in the archive tier; rehydrate it first",
];
const leased: AzureMeaning = ["unsupported", "another client has a lease on the blob"];
const damaged: AzureMeaning = ["corrupt", "other bytes arrived than were sent"];
const busy: AzureMeaning = ["throttled", "the service asks to slow down"];
const down: AzureMeaning = ["unavailable", "the service failed"];

/** Codes that say more than their status, or something else. */
const codes: Readonly<Record<string, AzureMeaning>> = {
  AuthenticationFailed: refusal,
  InvalidAuthenticationInfo: refusal,
  NoAuthenticationInformation: refusal,
  BlobAlreadyExists: ["precondition_failed", "there is a blob already"],
  BlobArchived: archived,
  BlobBeingRehydrated: archived,
  BlobImmutableDueToPolicy: ["permission_denied", "a policy keeps the blob as it is"],
  ContainerBeingDeleted: down,
  ContainerNotFound: ["not_found", "there is no such container"],
  // the ids of those blocks have another length than ours
  InvalidBlobOrBlock: ["unsupported", "unfinished blocks of another client block this write"],
  // another client finished a write of this blob, which drops the blocks of all others
  InvalidBlockList: ["precondition_failed", "another writer was faster"],
  // 412 as well, but the blob is as it was
  LeaseIdMissing: leased,
  LeaseLost: leased,
  Md5Mismatch: damaged,
  Crc64Mismatch: damaged,
  ServerBusy: busy,
};

const statuses: Readonly<Record<number, AzureMeaning>> = {
  400: badName,
  401: refusal,
  403: denied,
  404: missing,
  408: down,
  409: ["unsupported", "the blob is not in a state for that"],
  412: changed,
  413: ["too_large", "the service accepts no blob of that size"],
  416: ["range_not_satisfiable", "the range starts at or beyond the end"],
  429: busy,
  507: ["no_space", "the account is full"],
};

/** What the service, the network or a credential reported. */
interface AzureFault {
  readonly status: number | undefined;
  /** An error code of the service ("BlobNotFound"), of the system ("ECONNRESET"), or the error's name. */
  readonly name: string;
  readonly header: (name: string) => string | undefined;
}

/**
 * An error of the SDK as a {@link SluiceError}; one of ours passes unchanged. `operation` starts the
 * message. Neither the message nor the cause repeats what the SDK or the service wrote: there are
 * signed URLs and signatures in it.
 */
export function toSluiceError(error: unknown, operation: string): SluiceError {
  if (SluiceError.is(error)) return error;
  const fault = faultOf(error);
  const [code, text] = meaningOf(fault);
  const retryAfterMs = parseRetryAfter(fault.header("retry-after"), Date.now());
  const size = parseContentRange(fault.header("content-range"))?.size;
  return new SluiceError(code, `${operation}: ${text} (${fault.name})`, {
    cause: createCause(fault),
    ...definedMembers({
      retryAfterMs:
        code === "throttled" ? retryAfterMs : fault.name === staleConnection ? 0 : undefined,
      size: code === "range_not_satisfiable" ? size : undefined,
    }),
  });
}

/** A connection that broke while a body came. The SDK reports every broken body as an `AbortError`. */
export function toInterrupted(error: unknown, operation: string): SluiceError {
  const fault = faultOf(error);
  return new SluiceError("interrupted", `${operation}: the connection broke (${fault.name})`, {
    cause: createCause(fault),
  });
}

/** The HTTP status of an error of the SDK. */
export function statusOf(error: unknown): number | undefined {
  return (error as Partial<RestError> | undefined)?.statusCode;
}

function faultOf(error: unknown): AzureFault {
  const { statusCode, code, name, response } = (error ?? {}) as Partial<RestError>;
  const header = (field: string): string | undefined => response?.headers.get(field);
  // a response to HEAD has no body, so its code is in a header only
  const knownName = header("x-ms-error-code") ?? code ?? (statusCode ? `HTTP ${statusCode}` : name);
  const isCode = knownName !== undefined && /^[\w ]{1,60}$/.test(knownName);
  return { status: statusCode, name: isCode ? knownName : "unknown error", header };
}

function meaningOf({ status, name, header }: AzureFault): AzureMeaning {
  const meaning = Object.hasOwn(codes, name) ? codes[name] : undefined;
  if (meaning !== undefined) return meaning;
  if (status === 503 && header("retry-after") !== undefined) return busy;
  if (status !== undefined) return statuses[status] ?? down;
  // errors of the credentials of @azure/identity
  if (/^(?:Credential|Authentication|AggregateAuthentication)/.test(name)) return refusal;
  return ["unavailable", "the service could not be reached"];
}

/** The facts by which a log finds the request, and nothing else of it. */
function createCause({ status, name, header }: AzureFault): Error {
  const id = header("x-ms-request-id");
  const parts = new Set([name, status && `HTTP ${status}`, id && `request ${id}`]);
  const text = [...parts].filter(Boolean).join(", ");
  return Object.assign(new Error(text), { name: "AzureError" });
}
