import { FIRST_MODERN_VERSION } from "@sluice/core/internal";

/** True for a revision of MCP without sessions: it has no streams to pick up. */
export function isStateless(version: string | null): boolean {
  return version !== null && /^\d{4}-\d\d-\d\d$/.test(version) && version >= FIRST_MODERN_VERSION;
}

/**
 * True for a revision whose clients take an event without data as a place to come back to, and come back after an
 * answer that ended without a result (SEP-1699, revision 2025-11-25).
 */
export function takesPriming(version: string | null): boolean {
  return version !== null && version >= "2025-11-25";
}

/** Tells a client of a revision without sessions the alternatives. */
export const statelessAdvice =
  "Event streams resume only in MCP 2025-11-25 and older. In 2026-07-28 send the request again, take input_required results for requests of the server, and subscriptions/listen for changes.";
