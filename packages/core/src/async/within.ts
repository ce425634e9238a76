import { systemClock, type Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

/** Limits that end a wait before the work is done. */
export interface Deadline {
  /** Longest wait, in milliseconds. */
  readonly timeoutMs: number;
  /** Makes the error of a wait that took longer. */
  readonly expired: () => Error;
  /** Ends the wait with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /** Default: {@link systemClock}. */
  readonly clock?: Clock | undefined;
}

/**
 * Settles like `work`, unless the deadline or an abort comes first. A value that comes after that goes to `discard`;
 * a late error is ignored.
 */
export function within<T>(
  work: Promise<T>,
  { timeoutMs, expired, signal, clock = systemClock }: Deadline,
  discard?: (late: T) => void,
): Promise<T> {
  const watchClock = (end: (reason: unknown) => void): (() => void) =>
    clock.schedule(() => end(expired()), timeoutMs);
  return unlessEnded(work, signal, watchClock, discard);
}

/** Settles like `work`, unless `signal` aborts first: then it rejects with `signal.reason`. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return unlessEnded(work, signal, undefined);
}

/** Waits for an event at most `timeoutMs` and until `signal` aborts. True when it came, false else; never rejects. */
export function isInTime(
  event: Promise<unknown>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<boolean> {
  return within(event, { timeoutMs, expired: () => new Error("late"), signal }).then(
    () => true,
    () => false,
  );
}

function unlessEnded<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  watch: ((end: (reason: unknown) => void) => () => void) | undefined,
  discard?: (late: T) => void,
): Promise<T> {
  // every chunk and every call of storage waits here: few closures, and no list of them
  return new Promise<T>((resolve, reject) => {
    let isWaiting = true;
    let stopWatch: (() => void) | undefined;
    let stopListening: (() => void) | undefined;
    const stop = (): void => {
      isWaiting = false;
      stopWatch?.();
      stopListening?.();
    };
    const giveUp = (reason: unknown): void => {
      stop();
      reject(reason);
    };
    work.then(
      (value) => {
        const isLate = !isWaiting;
        stop();
        resolve(value);
        if (isLate) discard?.(value);
        return undefined;
      },
      (error: unknown) => {
        if (isWaiting) giveUp(signal?.aborted ? signal.reason : error);
      },
    );
    stopWatch = watch?.(giveUp);
    if (signal && isWaiting) stopListening = onAbort(signal, giveUp);
    if (!isWaiting) stop();
  });
}
