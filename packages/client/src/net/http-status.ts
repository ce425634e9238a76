import { parseRetryAfter } from "@sluice/core/internal";
import type { HopAnswer } from "./exchange.ts";

/** True for a success (RFC 9110 §15.3). */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** True for a redirect to a `Location`. */
export function isRedirect(status: number): boolean {
  return redirects.has(status);
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** `Retry-After` of a response in milliseconds. */
export function retryAfterOf({ headers }: Pick<HopAnswer, "headers">): number | undefined {
  return parseRetryAfter(headers.get("retry-after"), Date.now());
}
