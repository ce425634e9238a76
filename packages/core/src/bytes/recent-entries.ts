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
  const kept = new Map<string, { readonly entry: Entry; readonly bytes: number }>();
  let keptBytes = 0;

  function remove(name: string): void {
    keptBytes -= kept.get(name)?.bytes ?? 0;
    kept.delete(name);
  }

  return {
    get(name) {
      const found = kept.get(name);
      if (!found) return undefined;
      kept.delete(name);
      kept.set(name, found);
      return found.entry;
    },
    set(name, entry, bytes) {
      remove(name);
      kept.set(name, { entry, bytes });
      keptBytes += bytes;
      for (const [oldest] of kept) {
        if (kept.size <= maxEntries && keptBytes <= maxBytes) return;
        remove(bytes > maxBytes ? name : oldest);
      }
    },
    delete: remove,
    clear() {
      kept.clear();
      keptBytes = 0;
    },
  };
}
