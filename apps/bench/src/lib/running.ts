/** What runs for one table and ends with it, the last first. */
export interface Running extends AsyncDisposable {
  /** Ends `it` with the others. */
  use<T extends AsyncDisposable>(it: T): T;
}

/** Nothing yet. */
export function createRunning(): Running {
  const all: AsyncDisposable[] = [];
  return {
    use(it) {
      all.push(it);
      return it;
    },
    async [Symbol.asyncDispose]() {
      for (const it of all.toReversed()) await it[Symbol.asyncDispose]();
    },
  };
}
