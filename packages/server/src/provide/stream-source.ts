import type { ObjectInfo } from "@sluice/storage";
import type { ProvidedPipe } from "./provider.ts";

/** What a provider gave, as chunks that are asked for one by one. */
export interface ProvidedSource {
  /** The next chunk, which the reader owns; `undefined` at the end. Not called twice at once, nor after the end or an error. */
  readonly next: () => Promise<Uint8Array | undefined>;
  /** Ends it at any point, also while a chunk is awaited. Waits for nothing and never throws. */
  readonly release: (reason?: unknown) => void;
  /** Bytes of the whole resource, where what was given tells them. */
  readonly size?: number | undefined;
  readonly contentType?: string | undefined;
  /** A clean end may be a connection that broke: refused where the size is not known. Default: false. */
  readonly needsSize?: boolean;
  /** Offset of its first byte, where what was given tells it. */
  readonly start?: number;
}

/** What a source is for. */
export interface SourceTerms {
  /** Start of messages: `provider: open "2026.csv"`. */
  readonly operation: string;
  /** Canonical URI of the resource. */
  readonly uri: string;
  /** What was described of it. */
  readonly info: ObjectInfo;
  /** Offset of the first byte that was asked for. */
  readonly start: number;
}

const pieceBytes = 256 * 1024;

/** Node streams and iterators that were given before. */
const givenSources = new WeakSet<object>();

/** Throws a `TypeError` for a source that was given before: it ends at once, and would look like an empty whole. */
function ensureUnread(source: object, uri: string): void {
  if (givenSources.has(source))
    throw new TypeError(
      `provider of ${uri}: it gave a stream or an iterator that was given before; make a new one for each call`,
    );
  givenSources.add(source);
}

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
  ensureUnread(iterator, uri);
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
  if (readable.readableFlowing === true || readable.readableDidRead === true)
    throw new TypeError(
      `provider of ${uri}: the stream is read elsewhere, was read before, or belongs to a process that has ended; give it at once`,
    );
  ensureUnread(readable, uri);
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

interface ChunkEncoder {
  /** The bytes of a chunk. Throws a `TypeError` for what is neither text nor bytes, and for a lone surrogate. */
  read(chunk: unknown): Uint8Array;
  /** Throws a `TypeError` if the text ended within a character. */
  end(): void;
}

interface ChunkOptions {
  /** Canonical URI of the resource, for messages. */
  readonly uri: string;
  /** `copy` where the source may write to a chunk again. */
  readonly memory: "copy" | "hand-over";
}

const encoder = new TextEncoder();

/** Text becomes UTF-8; a character may be spread over two chunks of text. */
function createChunkEncoder({ uri, memory }: ChunkOptions): ChunkEncoder {
  /** The first half of a character. */
  let half = "";
  function ensureWhole(isWhole: boolean): void {
    if (!isWhole) throw new TypeError(`provider of ${uri}: the text has a lone surrogate`);
  }
  return {
    read(chunk) {
      if (typeof chunk === "string") {
        let text = half + chunk;
        half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? "";
        text = text.slice(0, text.length - half.length);
        ensureWhole(!/\p{Surrogate}/u.test(text));
        return encoder.encode(text);
      }
      ensureWhole(half === "");
      if (chunk instanceof Uint8Array) return memory === "copy" ? new Uint8Array(chunk) : chunk;
      throw new TypeError(
        `provider of ${uri}: a chunk is neither text nor bytes (${kindOf(chunk)})`,
      );
    },
    end: () => ensureWhole(half === ""),
  };
}

/** What a value is, for messages. */
export function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  return (value.constructor as { name?: string } | undefined)?.name ?? "object";
}
