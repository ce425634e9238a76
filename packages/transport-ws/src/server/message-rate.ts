/** How fast messages may come. */
export interface MessageRate {
  /** Over time. */
  readonly perSecond: number;
  /** At once, after a pause. */
  readonly burst: number;
}

/** Throws a `RangeError` for a rate at which nothing would ever come through. */
export function ensureRate({ perSecond, burst }: MessageRate): void {
  if (!(perSecond > 0 && Number.isFinite(perSecond) && burst >= 1))
    throw new RangeError(
      "messageRate: perSecond must be a finite number over 0, and burst at least 1; a burst of Infinity means no limit",
    );
}

/**
 * A full token bucket that may go into debt: nothing is refused, but a peer that takes too much waits.
 * A call takes one token and gives the milliseconds to wait before the next one; 0 while there is one.
 */
export function createTokenBucket({ perSecond, burst }: MessageRate): () => number {
  let tokens = burst;
  let filledAt = performance.now();
  return () => {
    const now = performance.now();
    tokens = Math.min(burst, tokens + ((now - filledAt) * perSecond) / 1_000) - 1;
    filledAt = now;
    return tokens >= 1 ? 0 : ((1 - tokens) * 1_000) / perSecond;
  };
}
