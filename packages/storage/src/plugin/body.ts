import { type ByteFlow, type ByteRange, type Lending, SluiceError } from "@sluice/core";
import { createFlowBody, flowOf, onAbort } from "@sluice/core/internal";

/** Steps of a body made by {@link createBody}. */
export interface BodySteps {
  /** The next chunk, or `undefined` at the end. Called when the reader wants one, never ahead, never twice at once. */
  next(): Promise<Uint8Array | undefined>;
  /**
   * Frees what the body holds. Called exactly once: after the end, an error, a cancel or an abort;
   * in the last two cases possibly while a `next` is in progress.
   */
  release?(reason?: unknown): void | Promise<void>;
  /** Ends the body with `signal.reason`, even while it is not read. */
  readonly signal?: AbortSignal | undefined;
}

/** A body of one chunk, which its reader owns. Without bytes it has no chunk. */
export function createBytesBody(
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  let rest: Uint8Array | undefined = bytes;
  return createBody({
    async next() {
      const chunk = rest;
      rest = undefined;
      return chunk;
    },
    signal,
  });
}

/** A Node `Readable`, such as the response of an HTTP client. */
export interface ReadableLike extends AsyncIterable<Uint8Array> {
  on(event: "error", listener: () => void): unknown;
  destroy(): unknown;
}

/** Settings of {@link createReadableBody}. */
export interface ReadableBodyOptions {
  /** Start of messages. */
  readonly operation: string;
  /** Ends the body with `signal.reason`. */
  readonly signal: AbortSignal | undefined;
}

/**
 * The body of a response, read on demand: the bytes that the socket has read by then are one chunk,
 * and it is paused between reads. A connection that breaks is `interrupted`. A cancel destroys the
 * stream.
 */
export function createReadableBody(
  readable: ReadableLike,
  { operation, signal }: ReadableBodyOptions,
): ReadableStream<Uint8Array> {
  // the next read reports a reset that comes between reads
  readable.on("error", () => {});
  let chunks: AsyncIterator<Uint8Array, undefined> | undefined;
  return createBody({
    async next() {
      chunks ??= readable[Symbol.asyncIterator]();
      try {
        return (await chunks.next()).value;
      } catch (cause) {
        throw new SluiceError("interrupted", `${operation}: the connection broke`, { cause });
      }
    },
    release: () => void readable.destroy(),
    signal,
  });
}

/**
 * Bytes `[start, end)` of a body, for services that send more than requested. The rest is not read.
 * Checks nothing: `validate` counts.
 */
export function sliceBody(
  body: ReadableStream<Uint8Array>,
  { start, end }: Required<ByteRange>,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  // nothing is read for a range without bytes
  let position = start < end ? 0 : end;
  return createBody({
    async next() {
      while (position < end) {
        const { done, value } = await reader.read();
        if (done) return undefined;
        const at = position;
        position += value.byteLength;
        if (position > start) return value.subarray(Math.max(0, start - at), end - at);
      }
      return undefined;
    },
    release: (reason) => reader.cancel(reason),
  });
}

/**
 * A body that is pulled: nothing is read before the reader asks and nothing is buffered ahead,
 * whatever the size. An abort errors it at once with `signal.reason`.
 */
export function createBody(steps: BodySteps): ReadableStream<Uint8Array> {
  let released = false;
  let controller: ReadableStreamDefaultController<Uint8Array>;
  let removeListener: (() => void) | undefined;

  const release = async (reason?: unknown): Promise<void> => {
    if (released) return;
    released = true;
    removeListener?.();
    await steps.release?.(reason);
  };
  const fail = (reason: unknown): void => {
    if (released) return;
    controller.error(reason);
    // the reader gets the first error; a failed release would tell it nothing
    release(reason).catch(() => {});
  };

  return new ReadableStream<Uint8Array>(
    {
      start(given) {
        controller = given;
        removeListener = onAbort(steps.signal, fail);
      },
      async pull() {
        try {
          let chunk = await steps.next();
          while (chunk?.byteLength === 0) chunk = await steps.next();
          if (released) return;
          if (chunk !== undefined) return controller.enqueue(chunk);
          await release().catch(() => {});
          controller.close();
        } catch (error) {
          fail(error);
        }
      },
      cancel: release,
    },
    { highWaterMark: 0 },
  );
}

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
