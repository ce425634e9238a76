import { systemClock, type Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

/** Resolves after `delayMs`. Rejects with `signal.reason` as soon as `signal` aborts. */
export function sleep(
  delayMs: number,
  signal?: AbortSignal,
  clock: Clock = systemClock,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = clock.schedule(() => {
      removeListener();
      resolve();
    }, delayMs);
    const removeListener = onAbort(signal, (reason) => {
      cancel();
      reject(reason);
    });
  });
}

/**
 * Resolves in a later turn of the event loop: other waiting work gets its turn first, and memory is
 * collected. Uses no timer where the runtime has `setImmediate`.
 */
export function nextTurn(): Promise<void> {
  const { setImmediate: immediately = setTimeout } = globalThis as {
    readonly setImmediate?: (callback: () => void) => unknown;
  };
  return new Promise((resolve) => void immediately(resolve));
}
