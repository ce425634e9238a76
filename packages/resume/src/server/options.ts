import type { Stores } from "@sluice/state";
import type { EndpointOptions, SluiceHandler } from "@sluice/transport-http";
import type { Rerun } from "../stream/rerun.ts";

/** Options of `createResume`. */
export interface ResumeOptions extends EndpointOptions {
  /** Where streams are kept. Default: the stores of the Sluice. */
  readonly stores?: Pick<Stores, "events">;
  /** Milliseconds for which a reader is kept while there is nothing to read. 0 sends it away at once. Default: 25 s. */
  readonly holdMs?: number;
  /** Milliseconds before a reader reconnects, sent as `retry`. Default: 1 s. */
  readonly retryMs?: number;
  /** Life of a link in milliseconds; every response carries a new one. Default: 5 min, at most 15 min. */
  readonly linkTtlMs?: number;
  /** Milliseconds for which a call may take; then it is cancelled. Default: 1 h. */
  readonly maxAgeMs?: number;
  /** Milliseconds for which a result can be read again. Default: 60 s. */
  readonly keepMs?: number;
  /** Milliseconds after which another process takes over the calls of a silent one. Default: 8 s. */
  readonly leaseMs?: number;
  /**
   * Largest JSON of a request, in bytes; more is answered with 413. Default: that of `handler`, else 4 MiB. Raise it for
   * tools with large arguments.
   */
  readonly maxRequestBodySize?: number;
  /** Runs calls again after a restart: `rerunCalls(…)` of `@sluice/resume/rerun`. Default: they end with the error `interrupted`. */
  readonly rerun?: Rerun;
  /** Gets errors that no caller waits for. Default: that of the Sluice. */
  readonly onError?: (error: unknown) => void;
}

/** How to close. */
export interface CloseResumeOptions {
  /** Milliseconds that calls in progress may still take. Default: 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** A handler whose streams can be picked up again. */
export interface ResumeHandler extends SluiceHandler {
  /**
   * Sends readers away that can resume elsewhere, lets calls end until the deadline, and gives up the
   * others: with a shared store another process takes them over at once. Their tools are cancelled
   * here. Idempotent.
   */
  close(options?: CloseResumeOptions): Promise<void>;
}

/** Times of `createResume` in milliseconds, complete. */
export interface ResumeTimes {
  readonly holdMs: number;
  readonly retryMs: number;
  readonly leaseMs: number;
  readonly maxAgeMs: number;
  readonly keepMs: number;
}

/** Fills in the times that were not set. Throws a `RangeError` for one that is out of its bounds. */
export function readTimes(options: ResumeOptions): ResumeTimes {
  const { holdMs = 25_000, retryMs = 1_000, leaseMs = 8_000 } = options;
  const { maxAgeMs = 3_600_000, keepMs = 60_000 } = options;
  const times = { holdMs, retryMs, leaseMs, maxAgeMs, keepMs };
  for (const [name, min] of Object.entries(minTimes)) {
    const ms = times[name as keyof ResumeTimes];
    if (!(Number.isSafeInteger(ms) && ms >= min && ms <= longestMs))
      throw new RangeError(
        `createResume: ${name} must be a whole number from ${min} to ${longestMs}`,
      );
  }
  return times;
}

const minTimes: Readonly<Record<keyof ResumeTimes, number>> = {
  holdMs: 0,
  retryMs: 0,
  leaseMs: 100,
  maxAgeMs: 1_000,
  keepMs: 1_000,
};
const longestMs = 2 ** 31 - 1;
