/**
 * Shares runs of `work` among calls for the same key. A call gets a run that begins after it: calls made while one runs
 * share the next. A run that rejects rejects for all that share it, and the next begins all the same.
 */
export function createSharedRuns<T>(
  work: (key: string) => Promise<T>,
): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>();
  const next = new Map<string, Promise<T>>();

  async function run(key: string): Promise<T> {
    try {
      return await work(key);
    } finally {
      running.delete(key);
    }
  }

  function begin(key: string): Promise<T> {
    next.delete(key);
    const begun = run(key);
    running.set(key, begun);
    return begun;
  }

  return (key) => {
    const nextRun = next.get(key);
    if (nextRun) return nextRun;
    const before = running.get(key);
    if (!before) return begin(key);
    const goOn = (): Promise<T> => begin(key);
    const after = before.then(goOn, goOn);
    next.set(key, after);
    return after;
  };
}
