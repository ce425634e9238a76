import {
  definedMembers,
  parseContentRange,
  parseRetryAfter,
  SluiceError,
  type SluiceErrorCode,
} from "@sluice/storage/plugin";

/** Headers of an answer, by lower-case names. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

const meanings: Readonly<Record<number, readonly [SluiceErrorCode, string]>> = {
  401: ["unauthenticated", "the server wants credentials"],
  403: ["permission_denied", "the server forbids it"],
  404: ["not_found", "it is not there"],
  410: ["not_found", "it is not there any more"],
  412: ["precondition_failed", "the object has changed"],
  414: ["invalid_argument", "the key is too long for the server"],
};

/** The error of a status other than success. It is thrown at once: waiting and retrying are for the wrappers. */
export function statusError(status: number, headers: Headers, operation: string): SluiceError {
  const cause = new Error(`the server answered ${status}`);
  const retryAfterMs = parseRetryAfter(text(headers["retry-after"]), Date.now());
  if (status === 429 || (status === 503 && retryAfterMs !== undefined))
    return new SluiceError("throttled", `${operation}: the server asks to slow down`, {
      cause,
      ...definedMembers({ retryAfterMs }),
    });
  if (status === 416) {
    const size = parseContentRange(text(headers["content-range"]))?.size;
    return new SluiceError("range_not_satisfiable", `${operation}: the range is beyond the end`, {
      cause,
      ...definedMembers({ size }),
    });
  }
  const [code, meaning] =
    meanings[status] ??
    (status >= 500
      ? (["unavailable", "the server failed"] as const)
      : (["unsupported", `the server answered ${status}`] as const));
  return new SluiceError(code, `${operation}: ${meaning}`, { cause });
}

/** A request that got no answer. Its message may name hosts and ports: it is kept as the cause only. */
export function failure(error: unknown, operation: string): SluiceError {
  if (SluiceError.is(error)) return error;
  return new SluiceError("unavailable", `${operation}: the server does not answer`, {
    cause: error,
  });
}

/** The first value of a header. */
export function text(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}
