import { parseRetryAfter, SluiceError, type SluiceErrorCode } from "@sluice/core";

/** The parts of a `FilesError` that are read here, so that any installed copy of files-sdk will do. */
interface FilesErrorParts {
  readonly code?: unknown;
  readonly permanent?: unknown;
  readonly cause?: unknown;
}

/** Where the clients behind the adapters keep status and headers of the answer that failed. */
interface ServiceError {
  readonly status?: unknown;
  readonly statusCode?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: unknown };
  readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
}

const meanings: Readonly<Record<string, readonly [SluiceErrorCode, string]>> = {
  NotFound: ["not_found", "it is not there"],
  Conflict: ["precondition_failed", "the object has changed"],
  ReadOnly: ["unsupported", "the adapter is read-only"],
};

/**
 * An error of an adapter as a {@link SluiceError}; one of ours passes unchanged. Adapters know
 * four causes, so the status of the answer is looked up where the client keeps it. Their texts
 * can hold URLs and paths: they stay in `cause`.
 */
export function toSluiceError(error: unknown, who: string): SluiceError {
  if (SluiceError.is(error)) return error;
  const { code, permanent, cause } = error as FilesErrorParts;
  const failure = (to: SluiceErrorCode, text: string): SluiceError =>
    new SluiceError(to, `${who}: ${text}`, { cause: error });
  const meaning = meanings[String(code)];
  if (meaning) return failure(...meaning);
  const status = statusOf(cause);
  if (code === "Unauthorized")
    return status === 401
      ? failure("unauthenticated", "the service refuses the adapter's credentials")
      : failure("permission_denied", "the adapter's credentials may not do that");
  const retryAfter = (cause as ServiceError | undefined)?.$response?.headers?.["retry-after"];
  if (status === 429 || (status === 503 && retryAfter !== undefined)) {
    const retryAfterMs = parseRetryAfter(retryAfter, Date.now());
    return new SluiceError("throttled", `${who}: the service asks to slow down`, {
      cause: error,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }
  if (status === 416) return failure("precondition_failed", "the object has become shorter");
  // what an adapter refuses by itself it refuses again: there is no failure of the service below it
  if (permanent === true || (code === "Provider" && cause === undefined))
    return failure("unsupported", "the adapter cannot do that");
  return failure("unavailable", "the service failed");
}

function statusOf(cause: unknown): number | undefined {
  const { status, statusCode, $metadata } = (cause ?? {}) as ServiceError;
  const found = status ?? statusCode ?? $metadata?.httpStatusCode;
  return typeof found === "number" ? found : undefined;
}
