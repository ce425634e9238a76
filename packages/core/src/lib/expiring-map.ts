/** A bounded map whose entries have an end. Times are unix milliseconds. */
export interface ExpiringMap<Value> {
  /** The live value. */
  get(key: string, now: number): Value | undefined;
  /** Adds or replaces; false when the map is full of live entries, which are never dropped. */
  set(
    key: string,
    value: Value,
    times: { readonly now: number; readonly expiresAt: number },
  ): boolean;
  delete(key: string): void;
}

/** Makes a map of at most `maxEntries` entries. Expired ones are swept when room is needed. */
export function createExpiringMap<Value>(maxEntries: number): ExpiringMap<Value> {
  if (!Number.isSafeInteger(maxEntries) || maxEntries < 1)
    throw new RangeError("expiring map: its bound must be an integer from 1");
  const entries = new Map<string, { readonly value: Value; readonly expiresAt: number }>();
  let earliest = Infinity;
  let sweptAt = -Infinity;

  function sweep(now: number): void {
    earliest = Infinity;
    sweptAt = now;
    for (const [key, { expiresAt }] of entries)
      if (expiresAt <= now) entries.delete(key);
      else earliest = Math.min(earliest, expiresAt);
  }

  return {
    get(key, now) {
      const entry = entries.get(key);
      return entry && entry.expiresAt > now ? entry.value : undefined;
    },
    set(key, value, { now, expiresAt }) {
      const isFull = () => entries.size >= maxEntries && !entries.has(key);
      // a sweep visits every entry: only when at least one is sure to go, and not for every call
      if (isFull() && earliest <= now && Math.abs(now - sweptAt) >= sweepPauseMs) sweep(now);
      if (isFull()) return false;
      entries.set(key, { value, expiresAt });
      earliest = Math.min(earliest, expiresAt);
      return true;
    },
    delete(key) {
      entries.delete(key);
    },
  };
}

const sweepPauseMs = 1_000;
