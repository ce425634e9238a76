/** Bytes that are taken in one turn of the event loop. */
const bytesATurn = 2 ** 18;

const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };

/**
 * Lets others have their turn: where a socket always has more, Node reads up to 32 times before it looks at anything
 * else, which was 2 MiB. Call the function with what was taken; a promise when the next bytes should wait for it. Where
 * the platform reads sockets on a thread of its own, as browsers do, there is nothing to let go.
 */
export function createEventLoopYield(): (bytes: number) => Promise<void> | undefined {
  let taken = 0;
  return (bytes) => {
    taken += bytes;
    if (taken < bytesATurn || !setImmediate) return undefined;
    taken = 0;
    return new Promise((resolve) => void setImmediate(resolve));
  };
}
