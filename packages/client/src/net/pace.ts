import type { SluiceError } from "@sluice/core";

/** Watches that bytes keep moving. The time in which this side is slow does not count. */
export interface Pace {
  note(bytes: number): void;
  /** This side is busy: clocks stand still until `go`. */
  hold(): void;
  go(): void;
  /** Ends the watch and tells how long it waited for bytes, in milliseconds. */
  stop(): number;
}

/** The least that a peer must do. */
export interface PaceTerms {
  readonly idleMs: number;
  readonly minBytesPerSecond: number;
  readonly rateWindowMs: number;
  /** Default: no limit. */
  readonly totalMs?: number;
  /** The errors of a peer that is idle, slow, or takes too long as a whole. */
  readonly idle: () => SluiceError;
  readonly slow: () => SluiceError;
  readonly late?: () => SluiceError;
}

/**
 * Calls `expire` when nothing moved for `idleMs`, or when the bytes move slower than the least rate or longer than the
 * total time.
 */
export function startPace(terms: PaceTerms, expire: (error: SluiceError) => void): Pace {
  const { idleMs, rateWindowMs, minBytesPerSecond, totalMs = Number.POSITIVE_INFINITY } = terms;
  const least = (minBytesPerSecond * rateWindowMs) / 1_000;
  let waiting = true;
  let last = performance.now();
  let idle = 0;
  let window = { ms: 0, bytes: 0 };
  let total = 0;

  function settle(): void {
    const now = performance.now();
    if (waiting) {
      idle += now - last;
      total += now - last;
      window.ms += now - last;
    }
    last = now;
  }

  function check(): void {
    settle();
    if (idle > idleMs) expire(terms.idle());
    else if (total > totalMs && terms.late) expire(terms.late());
    else if (window.ms >= rateWindowMs) {
      if (window.bytes < least) expire(terms.slow());
      window = { ms: 0, bytes: 0 };
    }
  }

  const step = Math.max(5, Math.min(1_000, idleMs / 4, rateWindowMs / 4, totalMs / 4));
  const timer = setInterval(check, step);
  return {
    note(bytes) {
      settle();
      idle = 0;
      window.bytes += bytes;
    },
    hold() {
      settle();
      waiting = false;
    },
    go() {
      settle();
      waiting = true;
    },
    stop() {
      settle();
      clearInterval(timer);
      return total;
    },
  };
}
