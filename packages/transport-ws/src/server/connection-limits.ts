import { ConcurrencyLimiter } from "@sluice/core/internal";

/** Limits of connections and of the bytes that wait for them, complete. */
export interface ConnectionLimits {
  readonly perPrincipal: number;
  /** `undefined`: callers without a principal count for the process only. */
  readonly perAddress: number | undefined;
  readonly perProcess: number;
}

/** A client: its connections, and its unsent bytes, are counted together. */
export interface ConnectionShare {
  readonly name: string;
  readonly isPrincipal: boolean;
}

/** One of the connections that a handler may have at once. */
export interface ConnectionLease {
  /** Also counts it for a share; false when the share is full, or the lease was given back. */
  claim(share: ConnectionShare | undefined): boolean;
  /** Gives it back. Idempotent. */
  release(): void;
}

/** Makes the limiter of one handler: a function that gives a lease, or `undefined` if all are taken. */
export function connectionLimiter(limits: ConnectionLimits): () => ConnectionLease | undefined {
  const { perPrincipal, perProcess, perAddress = perProcess } = limits;
  const shares = new ConcurrencyLimiter();
  let total = 0;
  return () => {
    if (total >= perProcess) return undefined;
    total += 1;
    let isTaken = true;
    let releaseShare: (() => void) | undefined;
    return {
      claim(share) {
        // the connection broke during authentication
        if (!isTaken) return false;
        if (share === undefined) return true;
        const { name, isPrincipal } = share;
        const limit = isPrincipal ? perPrincipal : perAddress;
        releaseShare = shares.take(name, limit);
        return releaseShare !== undefined;
      },
      release() {
        if (!isTaken) return;
        isTaken = false;
        total -= 1;
        releaseShare?.();
      },
    };
  };
}

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
export function tokenBucket({ perSecond, burst }: MessageRate): () => number {
  let tokens = burst;
  let filledAt = performance.now();
  return () => {
    const now = performance.now();
    tokens = Math.min(burst, tokens + ((now - filledAt) * perSecond) / 1_000) - 1;
    filledAt = now;
    return tokens >= 1 ? 0 : ((1 - tokens) * 1_000) / perSecond;
  };
}
