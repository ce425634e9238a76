import { createChunkEncoder } from "./chunk-encoder.ts";
import type { ProvidedPipe } from "./provider.ts";
import type { ProvidedSource, SourceTerms } from "./provided-source.ts";

const pieceBytes = 256 * 1024;

/** Bytes in memory, handed out as copies of at most 256 KiB: the provider may give the same ones again. */
export function bytesSource(bytes: Uint8Array, { start }: SourceTerms): ProvidedSource {
  let position = 0;
  return {
    async next() {
      if (position >= bytes.byteLength) return undefined;
      const from = position;
      position = Math.min(bytes.byteLength, from + pieceBytes);
      return new Uint8Array(bytes.subarray(from, position));
    },
    release() {
      position = bytes.byteLength;
    },
    size: start + bytes.byteLength,
  };
}

/** Text as UTF-8. */
export function textSource(text: string, terms: SourceTerms): ProvidedSource {
  const chunks = createChunkEncoder({ uri: terms.uri, memory: "hand-over" });
  const bytes = chunks.read(text);
  chunks.end();
  return bytesSource(bytes, terms);
}

/** A web stream. `memory` says whether its chunks may be written to again. */
export function streamSource(
  stream: ReadableStream<unknown>,
  { uri }: SourceTerms,
  memory: "copy" | "hand-over" = "copy",
): ProvidedSource {
  if (stream.locked)
    throw new TypeError(`provider of ${uri}: the stream is read elsewhere, or was read before`);
  const chunks = createChunkEncoder({ uri, memory });
  const reader = stream.getReader();
  return {
    async next() {
      const { done, value } = await reader.read();
      if (!done) return chunks.read(value);
      chunks.end();
      return undefined;
    },
    release: (reason) => void reader.cancel(reason).catch(() => {}),
  };
}

/** A generator, or anything that is iterated like one. */
export function iterableSource(
  iterable: AsyncIterable<unknown>,
  { uri }: SourceTerms,
): ProvidedSource {
  const chunks = createChunkEncoder({ uri, memory: "copy" });
  const iterator = iterable[Symbol.asyncIterator]();
  let isOver = false;
  async function step(): Promise<IteratorResult<unknown>> {
    try {
      return await iterator.next();
    } catch (error) {
      isOver = true;
      throw error;
    }
  }
  return {
    async next() {
      const { done, value } = await step();
      if (done !== true) return chunks.read(value);
      isOver = true;
      chunks.end();
      return undefined;
    },
    release() {
      if (isOver) return;
      isOver = true;
      endIterator(iterator).catch(() => {});
    },
  };
}

/** A generator that is at work ends when it yields or throws. */
async function endIterator(iterator: AsyncIterator<unknown>): Promise<void> {
  await iterator.return?.();
}

/** A Node `Readable`, which hands its chunks over. */
export function readableSource(readable: ProvidedPipe, { uri }: SourceTerms): ProvidedSource {
  if (readable.readableFlowing === true)
    throw new TypeError(
      `provider of ${uri}: the stream is read elsewhere, or belongs to a process that has ended; give it at once`,
    );
  const chunks = createChunkEncoder({ uri, memory: "hand-over" });
  // the next read reports a fault that comes between reads
  readable.on("error", () => {});
  let iterator: AsyncIterator<unknown> | undefined;
  return {
    async next() {
      iterator ??= readable[Symbol.asyncIterator]();
      const { done, value } = await iterator.next();
      if (done !== true) return chunks.read(value);
      chunks.end();
      return undefined;
    },
    release: () => void readable.destroy(),
  };
}
