import { definedMembers, parseRetryAfter, SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { HopAnswer } from "./exchange.ts";

/** An answer that took no file, as an error of ours. The server's words are not in it. */
export function uploadError({
  status,
  headers,
}: Pick<HopAnswer, "status" | "headers">): SluiceError {
  const { code, hint } = rows.get(status) ?? fallback(status);
  const message = `client: upload: ${hint} (HTTP ${status})`;
  return new SluiceError(
    code,
    message,
    definedMembers({ retryAfterMs: retryAfterOf({ headers }) }),
  );
}

/** A 404 of the server around the MCP handler, whose routes leave the download URLs out. */
export function unrouted(operation: string): SluiceError {
  return new SluiceError(
    "not_found",
    `client: ${operation}: nothing answers at the download URL (HTTP 404); route every path below the MCP endpoint to the handler, not the endpoint alone`,
  );
}

/** `Retry-After` of an answer in milliseconds. */
export function retryAfterOf({ headers }: Pick<HopAnswer, "headers">): number | undefined {
  return parseRetryAfter(headers.get("retry-after"), Date.now());
}

interface StatusError {
  readonly code: SluiceErrorCode;
  readonly hint: string;
}

function row(code: SluiceErrorCode, hint: string): StatusError {
  return { code, hint };
}

const rows: ReadonlyMap<number, StatusError> = new Map([
  [400, row("protocol", "the server refused it as malformed")],
  [401, row("unauthenticated", "it needs valid credentials; sign in again")],
  [403, row("permission_denied", "this account may not upload there; ask for access")],
  [404, row("not_found", "there is no such upload, or its address is used up; ask for a new one")],
  [408, row("timeout", "the server gave up waiting; try again")],
  [
    409,
    row("precondition_failed", "the server has another file there already; ask for a new address"),
  ],
  [410, row("expired", "the time for it is over; ask for a new address")],
  [413, row("too_large", "larger than the server takes")],
  [415, row("unsupported", "a type of file that the server does not take")],
  [422, row("corrupt", "the file did not arrive as it was sent; send it again")],
  [429, row("throttled", "too many uploads; try again later")],
  [507, row("no_space", "the server has no room for it; send it again once there is some")],
]);

function fallback(status: number): StatusError {
  if (status >= 300 && status < 400)
    return row("untrusted", "the server sends it elsewhere, which is not followed");
  return status >= 500
    ? row("unavailable", "the server failed; try again later")
    : row("protocol", "an answer that makes no sense here");
}
