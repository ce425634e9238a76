/** A bounded LRU cache: evicts the least recently used entry first. */
export interface RecentEntries<Entry> {
  get(name: string): Entry | undefined;
  /**
   * Keeps an entry in place of the one of that name; one that exceeds the bounds by itself is not
   * kept.
   */
  set(name: string, entry: Entry, bytes: number): void;
  delete(name: string): void;
  clear(): void;
}

/** A `Map` tells the order in which its keys were set: the first is the least recently used. */
export function createRecentEntries<Entry>(
  maxEntries: number,
  maxBytes: number,
): RecentEntries<Entry> {
  const entries = new Map<string, { readonly entry: Entry; readonly bytes: number }>();
  let keptBytes = 0;

  function remove(name: string): void {
    keptBytes -= entries.get(name)?.bytes ?? 0;
    entries.delete(name);
  }

  return {
    get(name) {
      const found = entries.get(name);
      if (!found) return undefined;
      entries.delete(name);
      entries.set(name, found);
      return found.entry;
    },
    set(name, entry, bytes) {
      remove(name);
      entries.set(name, { entry, bytes });
      keptBytes += bytes;
      for (const [oldest] of entries) {
        if (entries.size <= maxEntries && keptBytes <= maxBytes) return;
        remove(bytes > maxBytes ? name : oldest);
      }
    },
    delete: remove,
    clear() {
      entries.clear();
      keptBytes = 0;
    },
  };
}
