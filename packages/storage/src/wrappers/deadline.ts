import type { Clock } from "../contract/clock.ts";

/** What ends a wait before the work is done. */
export interface Deadline {
  readonly clock: Clock;
  /** Longest wait, in milliseconds. */
  readonly timeoutMs: number;
  /** The error of a wait that was too long. */
  readonly expired: () => Error;
  /** Ends the wait with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Settles like `work`, unless its deadline or an abort comes first. What it brings when nobody
 * waits any more goes to `discard`; how it fails then is ignored.
 */
export function within<T>(
  work: Promise<T>,
  deadline: Deadline,
  discard?: (late: T) => void,
): Promise<T> {
  const { clock, timeoutMs, expired, signal } = deadline;
  return new Promise<T>((resolve, reject) => {
    let waiting = true;
    const stop = (): void => {
      waiting = false;
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
    };
    const giveUp = (reason: unknown): void => {
      stop();
      reject(reason);
    };
    const onAbort = (): void => giveUp(signal?.reason);
    const cancelTimer = clock.schedule(() => giveUp(expired()), timeoutMs);
    signal?.addEventListener("abort", onAbort, { once: true });
    work.then(
      (value) => {
        const late = !waiting;
        stop();
        resolve(value);
        if (late) discard?.(value);
        return undefined;
      },
      (error: unknown) => {
        if (waiting) giveUp(signal?.aborted ? signal.reason : error);
      },
    );
    if (signal?.aborted) onAbort();
  });
}
