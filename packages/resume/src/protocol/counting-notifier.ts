import { onAbort, systemClock } from "@sluice/core/async";

/** What ends a wait without a notification. */
export interface WaitLimits {
  readonly ms: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Wakes readers at every change, and counts the changes: each reader waits for one that it has not seen. A class because
 * every stream has one.
 */
export class CountingNotifier {
  #count = 0;
  /** Absent while nothing waits, which is the rule for a call whose client is away. */
  #waiting: Set<() => void> | undefined;

  /** Number of notifications so far. */
  get count(): number {
    return this.#count;
  }

  notify(): void {
    this.#count += 1;
    for (const wake of this.#waiting ?? []) wake();
  }

  /** Resolves once there were more notifications than `count`, after so many milliseconds, or when the signal aborts. */
  wait(count: number, { ms, signal }: WaitLimits): Promise<void> {
    return new Promise((resolve) => {
      if (this.#count !== count || signal?.aborted || ms <= 0) return resolve();
      const waiting = (this.#waiting ??= new Set());
      const wake = (): void => {
        cancelTimer();
        removeListener();
        waiting.delete(wake);
        if (waiting.size === 0) this.#waiting = undefined;
        resolve();
      };
      const cancelTimer = systemClock.schedule(wake, ms);
      const removeListener = onAbort(signal, wake);
      waiting.add(wake);
    });
  }
}
