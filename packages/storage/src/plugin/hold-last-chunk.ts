import type { ByteFlow, Lending } from "@sluice/core";
import { createFlowBody, flowOf } from "@sluice/core/internal";

/**
 * A body whose last chunk waits until `verify` resolves: bytes of an object that changed during the
 * read never make a complete body. A rejection of `verify` becomes the body's error. For services
 * without snapshots: one cheap look after the last byte.
 */
export function holdLastChunk(
  body: ReadableStream<Uint8Array>,
  verify: () => Promise<void>,
): ReadableStream<Uint8Array> {
  return createFlowBody(holdLast(flowOf(body), verify));
}

/** The same for a flow. `seen` gets every chunk when it comes. */
export function holdLast(
  flow: ByteFlow,
  verify: () => Promise<void>,
  seen?: (chunk: Uint8Array) => void,
): ByteFlow {
  return {
    async pump(write, lending) {
      let lastChunk: Uint8Array | undefined;
      let releaseHeld: (() => void) | undefined;
      await flow.pump((chunk, release) => {
        if (chunk.byteLength === 0) return release?.();
        seen?.(chunk);
        const previous = lastChunk;
        const releasePrevious = releaseHeld;
        lastChunk = chunk;
        releaseHeld = release;
        return previous && write(previous, releasePrevious);
      }, withRoomForOne(lending));
      await verify();
      if (lastChunk) await write(lastChunk, releaseHeld);
    },
    cancel: (reason) => flow.cancel(reason),
  };
}

/** A chunk is held: without a block for it, wrappers that hold one each would together hold all, and none would come. */
function withRoomForOne(lending: Lending | undefined): Lending | undefined {
  return lending && { ...lending, blocks: lending.blocks + 1 };
}
