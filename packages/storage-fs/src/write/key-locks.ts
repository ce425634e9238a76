/** Runs work on a key once all earlier work on that key has settled. */
export type WithKeyLock = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Locks keys within this process, so that a write compares and replaces in one step. */
export function createKeyLocks(): WithKeyLock {
  const latest = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const turn = (latest.get(key) ?? Promise.resolve()).then(work, work);
    latest.set(key, turn);
    try {
      return await turn;
    } finally {
      if (latest.get(key) === turn) latest.delete(key);
    }
  };
}
