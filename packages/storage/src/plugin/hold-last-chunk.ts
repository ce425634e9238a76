import { createBody } from "./body.ts";

/**
 * A body whose last chunk waits until `verify` resolves: bytes of an object that changed meanwhile never make a
 * complete body. A rejection of `verify` becomes the body's error. For services without snapshots: one cheap look after
 * the last byte.
 */
export function holdLastChunk(
  body: ReadableStream<Uint8Array>,
  verify: () => Promise<void>,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let held: Uint8Array | undefined;
  let ended = false;
  return createBody({
    async next() {
      while (!ended) {
        const { done, value } = await reader.read();
        if (done) {
          ended = true;
          await verify();
          const last = held;
          held = undefined;
          return last;
        }
        const previous = held;
        held = value;
        if (previous !== undefined) return previous;
      }
      return undefined;
    },
    release: (reason) => reader.cancel(reason),
  });
}
