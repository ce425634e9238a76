/** How fast messages may come. */
export interface MessageRate {
  /** Over time. */
  readonly perSecond: number;
  /** At once, after a pause. */
  readonly burst: number;
}

/** A token bucket that may go into debt: nothing is refused, but a peer that takes too much waits. */
export interface TokenBucket {
  /** Takes one token and gives the milliseconds to wait before the next one; 0 while there is one. */
  take(now: number): number;
}

/** Throws a `RangeError` for a rate at which nothing would ever come through. */
export function ensureRate({ perSecond, burst }: MessageRate): void {
  if (!(perSecond > 0 && Number.isFinite(perSecond) && burst >= 1))
    throw new RangeError(
      "messageRate: perSecond must be a finite number over 0, and burst at least 1; a burst of Infinity is no limit",
    );
}

/** Makes a full bucket. */
export function createTokenBucket({ perSecond, burst }: MessageRate): TokenBucket {
  let tokens = burst;
  let filledAt: number | undefined;
  return {
    take(now) {
      const elapsed = Math.max(0, now - (filledAt ?? now));
      tokens = Math.min(burst, tokens + (elapsed * perSecond) / 1_000) - 1;
      filledAt = now;
      return tokens >= 1 ? 0 : ((1 - tokens) * 1_000) / perSecond;
    },
  };
}
