import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, parseRetryAfter } from "@sluice/core/internal";
import { callService, type ServiceCall } from "@sluice/storage/plugin";

/** The parts of a `FilesError` that are read here, so that any installed copy of files-sdk will do. */
interface FilesErrorParts {
  readonly code?: unknown;
  readonly permanent?: unknown;
  readonly cause?: unknown;
}

/** Where the clients behind the adapters keep status and headers of the response that failed. */
interface ServiceError {
  readonly status?: unknown;
  readonly statusCode?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: unknown };
  readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
}

/** Codes of the system that the adapter for folders passes on. */
const full: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);

const isName = /^\w{1,60}$/;

const meanings: Readonly<Record<string, readonly [SluiceErrorCode, string]>> = {
  NotFound: ["not_found", "it is not there"],
  Conflict: ["precondition_failed", "the object has changed"],
  ReadOnly: ["unsupported", "the adapter is read-only"],
};

/**
 * An error of an adapter as a {@link SluiceError}; one of ours passes unchanged. Adapters know
 * four causes, so the status of the response is looked up where the client keeps it.
 */
function toSluiceError(error: unknown, operation: string): SluiceError {
  if (SluiceError.is(error)) return error;
  const { code, permanent, cause } = error as FilesErrorParts;
  const failure = (to: SluiceErrorCode, text: string): SluiceError =>
    new SluiceError(to, `${operation}: ${text}`, { cause: createCause(error) });
  const meaning = Object.hasOwn(meanings, String(code)) ? meanings[String(code)] : undefined;
  if (meaning) return failure(...meaning);
  const status = statusOf(cause);
  if (code === "Unauthorized")
    return status === 401
      ? failure("unauthenticated", "the service refuses the adapter's credentials")
      : failure("permission_denied", "the adapter's credentials may not do that");
  const retryAfter = (cause as ServiceError | undefined)?.$response?.headers?.["retry-after"];
  if (status === 429 || (status === 503 && retryAfter !== undefined)) {
    const retryAfterMs = parseRetryAfter(retryAfter, Date.now());
    return new SluiceError("throttled", `${operation}: the service asks to slow down`, {
      cause: createCause(error),
      ...definedMembers({ retryAfterMs }),
    });
  }
  if (status === 507 || full.has((cause as { code?: unknown } | undefined)?.code))
    return failure("no_space", "the storage is full");
  if (status === 416) return failure("precondition_failed", "the object has become shorter");
  // a refusal by the adapter itself repeats: it hides no failure of the service
  if (permanent === true || (code === "Provider" && cause === undefined))
    return failure("unsupported", "the adapter cannot do that");
  return failure("unavailable", "the service failed");
}

/**
 * The facts for a log about an error and the ones below it: names, codes and statuses. Texts of
 * adapters hold URLs, even signed ones, and the errors of some clients hold whole requests with
 * their tokens.
 */
export function createCause(error: unknown): Error {
  const parts: string[] = [];
  let layer = error;
  for (let depth = 0; depth < 8 && typeof layer === "object" && layer !== null; depth++) {
    const { name, code, cause } = layer as { name?: unknown; code?: unknown; cause?: unknown };
    const status = statusOf(layer);
    const words = [name, code].filter((word) => typeof word === "string" && isName.test(word));
    parts.push([...words, ...(status === undefined ? [] : [`HTTP ${status}`])].join(" "));
    layer = cause;
  }
  return new Error(parts.filter(Boolean).join(": "));
}

function statusOf(cause: unknown): number | undefined {
  const { status, statusCode, $metadata } = (cause ?? {}) as ServiceError;
  const number = status ?? statusCode ?? $metadata?.httpStatusCode;
  return typeof number === "number" ? number : undefined;
}

/** One call of an adapter, with errors of Sluice. `discard` frees a response that comes after the end of the wait. */
export function callAdapter<T>(
  call: ServiceCall,
  send: () => Promise<T>,
  discard?: (late: T) => void,
): Promise<T> {
  return callService(call, send, { toError: toSluiceError, discard });
}
