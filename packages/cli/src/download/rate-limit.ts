import { setTimeout as sleep } from "node:timers/promises";

/** Waits until `bytes` more may pass. */
export type Pace = (bytes: number) => Promise<void>;

/**
 * Lets at most `bytesPerSecond` pass, of all transfers that share it together. A chunk waits for those before it, and passes
 * whole. Rejects when `signal` aborts.
 */
export function createPace(
  bytesPerSecond: number,
  signal: AbortSignal,
  now: () => number = () => performance.now(),
): Pace {
  let freeAt = 0;
  return async (bytes) => {
    const startsAt = Math.max(now(), freeAt);
    freeAt = startsAt + (bytes / bytesPerSecond) * 1_000;
    const waitMs = startsAt - now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal });
  };
}
