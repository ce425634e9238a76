/** Most connections at once. */
export interface ConnectionLimits {
  /** For this process; more are refused with 503. Default 2,000. */
  readonly maxConnections?: number;
  /** For one principal; more are refused with 429. The anonymous count for the process only. Default 16. */
  readonly maxConnectionsPerPrincipal?: number;
}

/** A place among the connections. */
export interface Place {
  /** Counts it for a principal too; false when that one has its share, or the place was given back. */
  claim(principal: string | undefined): boolean;
  /** Gives it back. Idempotent. */
  release(): void;
}

/** Makes the counters of one handler: a function that takes a place, if there is one. */
export function createPlaces(limits: ConnectionLimits): () => Place | undefined {
  const { maxConnections = 2_000, maxConnectionsPerPrincipal = 16 } = limits;
  for (const limit of [maxConnections, maxConnectionsPerPrincipal])
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
      claim(principal) {
        // its connection broke while it was being verified
        if (!taken) return false;
        if (principal === undefined) return true;
        const count = held.get(principal) ?? 0;
        if (count >= maxConnectionsPerPrincipal) return false;
        held.set(principal, count + 1);
        mine = principal;
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
