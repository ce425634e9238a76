import { parseRetryAfter, SluiceError } from "@sluice/core";
import type { HopAnswer } from "./exchange.ts";

/** A 404 of the server around the MCP handler, whose routes leave the download URLs out. */
export function unrouted(what: string): SluiceError {
  return new SluiceError(
    "not_found",
    `client: ${what}: nothing answers at the download URL (HTTP 404); route every path below the MCP endpoint to the handler, not the endpoint alone`,
  );
}

/** `Retry-After` of an answer in milliseconds. */
export function retryAfterOf(answer: HopAnswer): number | undefined {
  return parseRetryAfter(answer.headers.get("retry-after"), Date.now());
}
