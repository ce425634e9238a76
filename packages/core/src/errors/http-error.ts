import { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "./error.ts";

/** An HTTP answer that brought no bytes, as an error of ours. The server's words are not in it. */
export function httpError(
  what: string,
  status: number,
  options?: Pick<SluiceErrorOptions, "retryAfterMs" | "cause">,
): SluiceError {
  const [code, hint] = rows.get(status) ?? fallback(status);
  return new SluiceError(code, `client: ${what}: ${hint} (HTTP ${status})`, options);
}

const rows: ReadonlyMap<number, readonly [SluiceErrorCode, string]> = new Map([
  [400, ["protocol", "the server refused the request"]],
  [401, ["unauthenticated", "sign in again"]],
  [403, ["permission_denied", "ask for access"]],
  [404, ["not_found", "there is no such resource, or the link is used up"]],
  [408, ["timeout", "the server gave up waiting; try again"]],
  [410, ["expired", "the link is over; ask for a new one"]],
  [412, ["precondition_failed", "the resource changed; start again"]],
  [413, ["too_large", "larger than the server allows"]],
  [416, ["range_not_satisfiable", "the resource is shorter than it was; start again"]],
  [429, ["throttled", "too many requests; try again later"]],
]);

function fallback(status: number): readonly [SluiceErrorCode, string] {
  return status >= 500
    ? ["unavailable", "the server failed; try again later"]
    : ["protocol", "an answer that makes no sense here"];
}
