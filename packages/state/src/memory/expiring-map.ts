/** A bounded map whose entries have an end and an owner. Times are unix milliseconds. */
export interface ExpiringMap<Value> {
  get(key: string, now: number): Value | undefined;
  /** Adds or replaces; gives why nothing was kept, as live entries are never dropped. */
  set(key: string, value: Value, entry: EntryTerms): EntryRefusal | undefined;
  /** Replaces the value of an entry that is there, and nothing else of it. */
  replace(key: string, value: Value): void;
  delete(key: string): void;
}

interface EntryTerms {
  readonly now: number;
  readonly expiresAt: number;
  /** Whose share it counts in. Default: that of all without an owner. */
  readonly owner?: string;
}

/** Why an entry was not kept: the map is full, or its owner's share is. */
export interface EntryRefusal {
  readonly reason: "full" | "share_full";
  /** Milliseconds until the first of the entries that are in the way may end. */
  readonly retryAfterMs: number;
}

/** Makes a map of at most `maxEntries` entries, `maxPerOwner` of one owner. Sweeps expired ones when it needs room. */
export function createExpiringMap<Value>(
  maxEntries: number,
  maxPerOwner: number = maxEntries,
): ExpiringMap<Value> {
  for (const bound of [maxEntries, maxPerOwner])
    if (!Number.isSafeInteger(bound) || bound < 1)
      throw new RangeError("expiring map: its bounds must be integers from 1");
  const entries = new Map<string, ExpiringEntry<Value>>();
  const shares = new Map<string, OwnerShare>();
  let earliest = Infinity;
  let sweptAt = -Infinity;

  function count({ owner, expiresAt }: ExpiringEntry<Value>): void {
    const share = shares.get(owner);
    if (!share) shares.set(owner, { entries: 1, earliest: expiresAt });
    else {
      share.entries += 1;
      share.earliest = Math.min(share.earliest, expiresAt);
    }
    earliest = Math.min(earliest, expiresAt);
  }

  function remove(key: string): void {
    const entry = entries.get(key);
    if (!entry) return;
    entries.delete(key);
    const share = shares.get(entry.owner)!;
    share.entries -= 1;
    if (share.entries === 0) shares.delete(entry.owner);
  }

  function sweep(now: number): void {
    earliest = Infinity;
    sweptAt = now;
    shares.clear();
    for (const [key, entry] of entries)
      if (entry.expiresAt <= now) entries.delete(key);
      else count(entry);
  }

  /** The first end among the entries in the way of a new one. */
  function blocked(key: string, owner: string) {
    const present = entries.get(key);
    if (!present && entries.size >= maxEntries) return { reason: "full", until: earliest } as const;
    const share = shares.get(owner);
    if (!share || share.entries < maxPerOwner || present?.owner === owner) return undefined;
    return { reason: "share_full", until: share.earliest } as const;
  }

  return {
    get(key, now) {
      const entry = entries.get(key);
      return entry && entry.expiresAt > now ? entry.value : undefined;
    },
    set(key, value, { now, expiresAt, owner = "" }) {
      let block = blocked(key, owner);
      // a sweep visits every entry: only when at least one is sure to go, and not for every call
      if (block && block.until <= now && Math.abs(now - sweptAt) >= sweepPauseMs) {
        sweep(now);
        block = blocked(key, owner);
      }
      if (block) {
        const { reason, until } = block;
        return { reason, retryAfterMs: Math.max(sweepPauseMs, until - now) };
      }
      remove(key);
      const entry = { value, expiresAt, owner };
      entries.set(key, entry);
      count(entry);
      return undefined;
    },
    replace(key, value) {
      const entry = entries.get(key);
      if (entry) entries.set(key, { ...entry, value });
    },
    delete: remove,
  };
}

interface ExpiringEntry<Value> {
  readonly value: Value;
  readonly expiresAt: number;
  readonly owner: string;
}

interface OwnerShare {
  entries: number;
  /** None of them ends before. */
  earliest: number;
}

const sweepPauseMs = 1_000;
