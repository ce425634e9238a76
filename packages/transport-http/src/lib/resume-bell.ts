/** Tells waiting readers that something has changed. */
export interface Bell {
  /** Times it has rung. */
  readonly count: number;
  ring(): void;
  /** Resolves at the next ring after it had rung `count` times, or after so many milliseconds, or when the signal aborts. */
  wait(count: number, limits: { readonly ms: number; readonly signal: AbortSignal }): Promise<void>;
}

/** Makes a bell that has not rung. */
export function createBell(): Bell {
  const waiting = new Set<() => void>();
  let rung = 0;
  return {
    get count() {
      return rung;
    },
    ring() {
      rung += 1;
      for (const wake of waiting) wake();
    },
    wait: (count, { ms, signal }) =>
      new Promise((resolve) => {
        if (rung !== count || signal.aborted || ms <= 0) return resolve();
        const wake = (): void => {
          clearTimeout(timer);
          waiting.delete(wake);
          signal.removeEventListener("abort", wake);
          resolve();
        };
        const timer = setTimeout(wake, ms);
        waiting.add(wake);
        signal.addEventListener("abort", wake);
      }),
  };
}
