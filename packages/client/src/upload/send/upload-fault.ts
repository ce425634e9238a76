import { parseRetryAfter, SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { SenderAnswer } from "./sender.ts";

/** An answer that is no success, as an error. The server's words are not in it. */
export function faultOfAnswer({ status, headers }: SenderAnswer): SluiceError {
  const [code, hint] = rows.get(status) ?? fallback(status);
  const retryAfterMs = parseRetryAfter(headers.get("retry-after"), Date.now());
  return new SluiceError(code, `uploads: ${hint} (HTTP ${status})`, {
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

const rows: ReadonlyMap<number, readonly [SluiceErrorCode, string]> = new Map([
  [400, ["protocol", "the server refused the upload as malformed"]],
  [401, ["unauthenticated", "the upload needs valid credentials; sign in again"]],
  [403, ["permission_denied", "this account may not upload there; ask for access"]],
  [404, ["not_found", "there is no such upload, or its address is used up; ask for a new one"]],
  [408, ["timeout", "the server gave up waiting; try again"]],
  [
    409,
    ["precondition_failed", "the server has another file there already; ask for a new address"],
  ],
  [410, ["expired", "the time for this upload is over; ask for a new address"]],
  [413, ["too_large", "larger than the server takes"]],
  [415, ["unsupported", "a type of file that the server does not take"]],
  [422, ["corrupt", "the file did not arrive as it was sent; send it again"]],
  [429, ["throttled", "too many uploads; try again later"]],
  [507, ["no_space", "the server has no room for it; send it again once there is some"]],
] satisfies [number, readonly [SluiceErrorCode, string]][]);

function fallback(status: number): readonly [SluiceErrorCode, string] {
  if (status >= 300 && status < 400)
    return ["untrusted", "the server sends the upload elsewhere, which is not followed"];
  return status >= 500
    ? ["unavailable", "the server failed; try again later"]
    : ["protocol", "an answer that makes no sense to an upload"];
}
