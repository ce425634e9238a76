import { ConcurrencyLimiter } from "@sluice/core/internal";

/** Maximum connections at once. */
export interface ConnectionLimits {
  /** For this process; more are refused with 503. Default 2,000. */
  readonly maxConnections?: number;
  /** For one principal; more are refused with 429. Default 16. */
  readonly maxConnectionsPerPrincipal?: number;
  /**
   * For one address, of callers without a principal; more are refused with 429. An IPv6 address counts with its
   * /64. Default: no limit, for behind a proxy all may have one address. Set it where `proxyHops` is right.
   */
  readonly maxConnectionsPerAddress?: number;
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
  const { maxConnections = 2_000, maxConnectionsPerPrincipal = 16 } = limits;
  const { maxConnectionsPerAddress = maxConnections } = limits;
  for (const limit of [maxConnections, maxConnectionsPerPrincipal, maxConnectionsPerAddress])
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new RangeError(
        `createWebSocketHandler: ${limit} is not a limit; pass an integer from 1`,
      );
  const shares = new ConcurrencyLimiter();
  let total = 0;
  return () => {
    if (total >= maxConnections) return undefined;
    total += 1;
    let isTaken = true;
    let releaseShare: (() => void) | undefined;
    return {
      claim(share) {
        // the connection broke during authentication
        if (!isTaken) return false;
        if (share === undefined) return true;
        const { name, isPrincipal } = share;
        const limit = isPrincipal ? maxConnectionsPerPrincipal : maxConnectionsPerAddress;
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
