/**
 * Resolves in a later turn of the event loop: what else waits gets its turn first, and memory is collected. Takes no timer
 * where the runtime has `setImmediate`.
 */
export function nextTurn(): Promise<void> {
  const { setImmediate: immediately = setTimeout } = globalThis as {
    readonly setImmediate?: (callback: () => void) => unknown;
  };
  return new Promise((resolve) => void immediately(resolve));
}
