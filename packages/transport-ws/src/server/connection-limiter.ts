/** Most connections at once. */
export interface ConnectionLimits {
  /** For this process; more are refused with 503. Default 2,000. */
  readonly maxConnections?: number;
  /** For one principal; more are refused with 429. Default 16. */
  readonly maxConnectionsPerPrincipal?: number;
  /**
   * For one address, of callers without a principal; more are refused with 429. An IPv6 address counts with its /64. Default: no
   * limit, for behind a proxy all may have one address: set it where `proxyHops` is right.
   */
  readonly maxConnectionsPerAddress?: number;
}

/** Whose connections, and whose unsent bytes, are counted together. */
export interface ConnectionShare {
  readonly name: string;
  readonly isPrincipal: boolean;
}

/** A place among the connections. */
export interface ConnectionLease {
  /** Counts it for a share too; false when that one is full, or the place was given back. */
  claim(share: ConnectionShare | undefined): boolean;
  /** Gives it back. Idempotent. */
  release(): void;
}

/** Makes the counters of one handler: a function that takes a place, if there is one. */
export function createConnectionLimiter(
  limits: ConnectionLimits,
): () => ConnectionLease | undefined {
  const { maxConnections = 2_000, maxConnectionsPerPrincipal = 16 } = limits;
  const { maxConnectionsPerAddress = maxConnections } = limits;
  for (const limit of [maxConnections, maxConnectionsPerPrincipal, maxConnectionsPerAddress])
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new RangeError(`createWebSocketHandler: ${limit} is no limit; pass an integer from 1`);
  const held = new Map<string, number>();
  let total = 0;
  return () => {
    if (total >= maxConnections) return undefined;
    total += 1;
    let taken = true;
    let mine: string | undefined;
    return {
      claim(share) {
        // its connection broke while it was being verified
        if (!taken) return false;
        if (share === undefined) return true;
        const { name, isPrincipal } = share;
        const count = held.get(name) ?? 0;
        if (count >= (isPrincipal ? maxConnectionsPerPrincipal : maxConnectionsPerAddress))
          return false;
        held.set(name, count + 1);
        mine = name;
        return true;
      },
      release() {
        if (!taken) return;
        taken = false;
        total -= 1;
        if (mine === undefined) return;
        const left = held.get(mine)! - 1;
        if (left === 0) held.delete(mine);
        else held.set(mine, left);
      },
    };
  };
}
