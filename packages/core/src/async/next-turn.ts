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
