import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, parseRetryAfter, parseContentRange } from "@sluice/core/internal";
import { staleConnection } from "@sluice/core/internal/node";

/**
 * Facts from an error of the SDK. Responses to HEAD have no body and so no code: the status is all
 * there is.
 */
interface S3Refusal {
  readonly status: number;
  /** The code of S3 ("NoSuchKey"); empty when there was none. */
  readonly code: string;
  readonly reason: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly requestId: string | undefined;
  readonly size: number | undefined;
}

type S3Meaning = readonly [SluiceErrorCode, string];

const credentials = "S3 refuses the credentials of this server";
const changed = "the object has changed";
const slower = "S3 asks to slow down";
const full = "the storage is full";
const quota = "the quota is used up";

const byCode: Readonly<Record<string, S3Meaning>> = {
  NoSuchBucket: ["not_found", "there is no such bucket"],
  // an upload that a lifecycle rule or another client has ended
  NoSuchUpload: ["interrupted", "the upload was ended from outside"],
  // a part of that number is another writer's by now
  InvalidPart: ["precondition_failed", "another writer sent the same parts"],
  InvalidObjectState: ["unsupported", "it is in an archive and has to be restored first"],
  InvalidArgument: ["invalid_argument", "S3 cannot read an argument"],
  KeyTooLongError: ["invalid_argument", "the key is too long"],
  InvalidURI: ["invalid_argument", "S3 cannot read the key"],
  // Ceph and MinIO say it with statuses that mean something else
  QuotaExceeded: ["no_space", quota],
  XMinioAdminBucketQuotaExceeded: ["no_space", quota],
  XMinioStorageFull: ["no_space", full],
  EntityTooLarge: ["too_large", "S3 accepts no object of that size"],
  ConditionalRequestConflict: ["precondition_failed", "another write of it is in progress"],
  OperationAborted: ["unavailable", "another operation is in progress"],
  BadDigest: ["corrupt", "other bytes arrived than were sent"],
  InvalidDigest: ["corrupt", "other bytes arrived than were sent"],
  XAmzContentSHA256Mismatch: ["corrupt", "other bytes arrived than were sent"],
  IncompleteBody: ["interrupted", "not all bytes arrived"],
  RequestTimeout: ["unavailable", "S3 timed out"],
  AccessDenied: ["permission_denied", "S3 does not allow it"],
  ExpiredToken: ["unauthenticated", `${credentials}: they have expired`],
  TokenRefreshRequired: ["unauthenticated", `${credentials}: they have expired`],
  InvalidToken: ["unauthenticated", credentials],
  InvalidAccessKeyId: ["unauthenticated", credentials],
  InvalidSecurity: ["unauthenticated", credentials],
  SignatureDoesNotMatch: ["unauthenticated", credentials],
  AuthorizationHeaderMalformed: ["unauthenticated", `${credentials}: is the region right?`],
  RequestTimeTooSkewed: ["unauthenticated", `${credentials}: the clock is wrong`],
  PermanentRedirect: ["unauthenticated", "the bucket is in another region: set region"],
  TemporaryRedirect: ["unauthenticated", "the bucket is in another region: set region"],
  SlowDown: ["throttled", slower],
  SlowDownRead: ["throttled", slower],
  SlowDownWrite: ["throttled", slower],
  TooManyRequests: ["throttled", slower],
  RequestLimitExceeded: ["throttled", slower],
  Throttling: ["throttled", slower],
  ThrottlingException: ["throttled", slower],
  BandwidthLimitExceeded: ["throttled", slower],
};

const byStatus: Readonly<Record<number, S3Meaning>> = {
  // for example encrypted with a key of the customer
  400: ["unsupported", "S3 does not accept the request"],
  401: ["unauthenticated", credentials],
  403: [
    "permission_denied",
    "S3 does not allow it; without s3:ListBucket that is also the answer for a missing object",
  ],
  404: ["not_found", "it is not there"],
  405: ["unsupported", "S3 cannot do that here"],
  409: ["unavailable", "another operation is in progress"],
  412: ["precondition_failed", changed],
  413: ["too_large", "S3 accepts no object of that size"],
  416: ["range_not_satisfiable", "the range starts at or beyond the end"],
  429: ["throttled", slower],
  501: ["unsupported", "this server does not implement it"],
  507: ["no_space", full],
};

const staleCodes = new Set(["ExpiredToken", "TokenRefreshRequired", "InvalidToken"]);

/**
 * An error of the SDK as a {@link SluiceError}; one of ours passes unchanged. It goes by status and
 * code, never by texts: those may hold keys, signatures and addresses, and are left out here. The
 * `cause` of a response is rebuilt for the same reason; its request id finds it in the logs of S3.
 */
export function toSluiceError(error: unknown, operation: string): SluiceError {
  if (SluiceError.is(error)) return error;
  const refusal = readRefusal(error);
  if (refusal === undefined) return fromNetwork(error, operation);
  const { status, code, size, headers, requestId } = refusal;
  const [sluiceCode, text] = meaningOf(refusal);
  const codeSuffix = /^\w{1,64}$/.test(code) ? ` ${code}` : "";
  const waitMs =
    sluiceCode === "throttled" || sluiceCode === "unavailable"
      ? parseRetryAfter(headers["retry-after"], Date.now())
      : undefined;
  // for an outage, 0 would mean that the request did not arrive (see fromNetwork)
  const retryAfterMs = sluiceCode === "unavailable" ? waitMs || undefined : waitMs;
  return new SluiceError(sluiceCode, `${operation}: ${text} (${status}${codeSuffix})`, {
    cause: new S3Answer(
      `S3 answered ${status}${codeSuffix}${requestId ? `, request ${requestId}` : ""}`,
      { status, code },
    ),
    ...definedMembers({
      retryAfterMs,
      size: sluiceCode === "range_not_satisfiable" ? size : undefined,
    }),
  });
}

/** A refusal as the cause of an error. */
class S3Answer extends Error {
  readonly #facts: Pick<S3Refusal, "status" | "code">;

  constructor(message: string, facts: Pick<S3Refusal, "status" | "code">) {
    super(message);
    this.#facts = facts;
  }

  /** Of a multipart upload: S3 has none of that id. */
  get isUploadMissing(): boolean {
    const { status, code } = this.#facts;
    return code === "NoSuchUpload" || (status === 404 && !otherMissing.has(code));
  }
}

const otherMissing: ReadonlySet<string> = new Set(["NoSuchBucket", "NoSuchKey"]);

/** True if S3 says that the multipart upload is not there: it was completed or aborted. */
export function isUploadGone(error: unknown): boolean {
  return SluiceError.is(error) && error.cause instanceof S3Answer && error.cause.isUploadMissing;
}

/** True if other credentials may help, because those used have expired. A HEAD shows that only as a 400. */
export function isStaleCredentials(error: unknown): boolean {
  const refusal = readRefusal(error);
  if (refusal === undefined) return false;
  return staleCodes.has(refusal.code) || (refusal.code === "" && refusal.status === 400);
}

function meaningOf({ status, code, reason, headers }: S3Refusal): S3Meaning {
  // the response to a HEAD where a GET says ExpiredToken or AuthorizationHeaderMalformed
  if (status === 400 && code === "")
    return ["unauthenticated", `${credentials}, or the region is another`];
  const byTable = (Object.hasOwn(byCode, code) ? byCode[code] : undefined) ?? byStatus[status];
  if (byTable !== undefined) return byTable;
  // a HEAD has no code: only `Retry-After`, or SlowDown in its reason, tells throttling from an outage
  if (status === 503 && (headers["retry-after"] !== undefined || /slow ?down/i.test(reason)))
    return ["throttled", slower];
  if (status >= 300 && status < 400)
    return ["unauthenticated", "the bucket is at another address: set region and endpoint"];
  return status >= 500 || status === 499
    ? ["unavailable", "S3 failed"]
    : ["protocol", "S3 gave an unknown answer"];
}

function fromNetwork(error: unknown, operation: string): SluiceError {
  const { name, code } = error as { readonly name?: unknown; readonly code?: unknown };
  if (name === "CredentialsProviderError" || name === "TokenProviderError")
    return new SluiceError("unauthenticated", `${operation}: there are no credentials`, {
      cause: error,
    });
  const fault = typeof code === "string" ? code : name === "TimeoutError" ? name : undefined;
  if (fault !== undefined)
    return new SluiceError("unavailable", `${operation}: S3 cannot be reached (${fault})`, {
      cause: error,
      // the connection had closed before the request: it can be sent again at once
      ...(fault === staleConnection && { retryAfterMs: 0 }),
    });
  return new SluiceError("protocol", `${operation}: the answer of S3 cannot be read`, {
    cause: error,
  });
}

function readRefusal(error: unknown): S3Refusal | undefined {
  const { $metadata, $response, name, ActualObjectSize } = (error ?? {}) as {
    readonly $metadata?: { readonly httpStatusCode?: number; readonly requestId?: string };
    readonly $response?: {
      readonly statusCode: number;
      readonly reason?: string;
      readonly headers?: Readonly<Record<string, string>>;
    };
    readonly name?: string;
    readonly ActualObjectSize?: string;
  };
  const status = $metadata?.httpStatusCode ?? $response?.statusCode;
  // a response of 200 that could not be parsed is not a refusal
  if (status === undefined || status < 300) return undefined;
  const headers = $response?.headers ?? {};
  const actualSize = Number(ActualObjectSize ?? Number.NaN);
  return {
    status,
    code: name === undefined || isPlaceholder(name) ? "" : name,
    reason: $response?.reason ?? "",
    headers,
    requestId: $metadata?.requestId,
    size:
      parseContentRange(headers["content-range"])?.size ??
      (Number.isSafeInteger(actualSize) ? actualSize : undefined),
  };
}

/** The SDK's name for an error without a code. */
function isPlaceholder(name: string): boolean {
  return (
    ["Unknown", "UnknownError", "Error", "NotFound", "S3ServiceException"].includes(name) ||
    /^\d+$/.test(name)
  );
}
