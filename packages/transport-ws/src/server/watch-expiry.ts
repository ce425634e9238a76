import { backgroundClock } from "@sluice/core/async";

/** Calls `expired` once at a time in unix seconds, however far away. Gives the function that ends the watch. */
export function watchExpiry(atSeconds: number | undefined, expired: () => void): () => void {
  if (atSeconds === undefined) return () => {};
  let cancel: (() => void) | undefined;
  function watch(atMs: number): void {
    const leftMs = atMs - Date.now();
    if (leftMs <= 0) return expired();
    cancel = backgroundClock.schedule(() => watch(atMs), Math.min(leftMs, longestLookMs));
  }
  watch(atSeconds * 1_000);
  return () => cancel?.();
}

/** The system's time may be set meanwhile. */
const longestLookMs = 24 * 3_600_000;
