import { FIRST_MODERN_VERSION } from "@sluice/core/wire";

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

/** Says to a client of a revision without sessions what there is instead. */
export const statelessAdvice =
  "Streams of events are picked up in MCP 2025-11-25 and older. In 2026-07-28 send the request again, take input_required results for what the server asks, and subscriptions/listen for changes.";
