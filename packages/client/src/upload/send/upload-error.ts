import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { HopAnswer } from "../../net/exchange.ts";
import { retryAfterOf } from "../../net/http-status.ts";

/** A response that rejects a file, as an error of ours, without the server's words. */
export function uploadError(answer: Pick<HopAnswer, "status" | "headers">): SluiceError {
  const { status } = answer;
  const [code, hint] = uploadRows.get(status) ?? uploadFallback(status);
  const message = `client: upload: ${hint} (HTTP ${status})`;
  const retryAfterMs = retryAfterOf(answer);
  return new SluiceError(code, message, definedMembers({ retryAfterMs, origin: httpOrigin }));
}

/** Origin of errors that are the status of an HTTP response. */
export const httpOrigin = "http";

const uploadRows: ReadonlyMap<number, readonly [SluiceErrorCode, string]> = new Map([
  [400, ["protocol", "the server refused it as malformed"]],
  [401, ["unauthenticated", "it needs valid credentials; sign in again"]],
  [403, ["permission_denied", "this account may not upload there; ask for access"]],
  [404, ["not_found", "there is no such upload, or its address is used up; ask for a new one"]],
  [408, ["timeout", "the server gave up waiting; try again"]],
  [
    409,
    ["precondition_failed", "the server has another file there already; ask for a new address"],
  ],
  [410, ["expired", "it expired; ask for a new address"]],
  [413, ["too_large", "larger than the server takes"]],
  [415, ["unsupported", "a type of file that the server does not take"]],
  [422, ["corrupt", "the file did not arrive as it was sent; send it again"]],
  [429, ["throttled", "too many uploads; try again later"]],
  [507, ["no_space", "the server has no room for it; send it again once there is some"]],
]);

function uploadFallback(status: number): readonly [SluiceErrorCode, string] {
  if (status >= 300 && status < 400)
    return ["untrusted", "the server sends it elsewhere, which is not followed"];
  return status >= 500
    ? ["unavailable", "the server failed; try again later"]
    : ["protocol", "an unexpected response"];
}
