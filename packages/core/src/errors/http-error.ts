import { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "./error.ts";

/** An HTTP response without the bytes, as a Sluice error. The server's text is not in it. */
export function httpError(
  what: string,
  status: number,
  options?: Pick<SluiceErrorOptions, "retryAfterMs" | "cause">,
): SluiceError {
  const [code, hint] = meaningOf(status);
  return new SluiceError(code, `client: ${what}: ${hint} (HTTP ${status})`, options);
}

/** The code of an HTTP response without the bytes. */
export function codeOfStatus(status: number): SluiceErrorCode {
  const [code] = meaningOf(status);
  return code;
}

const rows: ReadonlyMap<number, readonly [SluiceErrorCode, string]> = new Map([
  [400, ["protocol", "the server refused the request"]],
  [401, ["unauthenticated", "sign in again"]],
  [403, ["permission_denied", "ask for access"]],
  [404, ["not_found", "there is no such resource, or the link is used up"]],
  [408, ["timeout", "the server timed out; try again"]],
  [410, ["expired", "the link expired; ask for a new one"]],
  [412, ["precondition_failed", "the resource changed; start again"]],
  [413, ["too_large", "larger than the server allows"]],
  [416, ["range_not_satisfiable", "the resource is shorter than it was; start again"]],
  [425, ["unavailable", "the server asks for a later retry"]],
  [429, ["throttled", "too many requests; try again later"]],
]);

function meaningOf(status: number): readonly [SluiceErrorCode, string] {
  const isFault = status >= 500;
  return (
    rows.get(status) ??
    (isFault
      ? ["unavailable", "the server failed; try again later"]
      : ["protocol", "an unexpected response"])
  );
}
