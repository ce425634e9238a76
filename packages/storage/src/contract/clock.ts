/** Where waits take their time from; tests put in their own. */
export interface Clock {
  /** Milliseconds since some fixed moment; only differences matter. */
  now(): number;
  /** Calls back once after `delayMs`, unless the returned function is called before. */
  schedule(callback: () => void, delayMs: number): () => void;
}

/** The clock of the platform: monotonic, not moved by changes of the system time. */
export const systemClock: Clock = {
  now: () => performance.now(),
  schedule(callback, delayMs) {
    // longer timers would fire at once
    const timer = setTimeout(callback, Math.min(delayMs, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
};

/** Waits; an abort rejects at once with `signal.reason`. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = (): void => {
      stop();
      reject(signal?.reason);
    };
    const stop = clock.schedule(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, delayMs);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
