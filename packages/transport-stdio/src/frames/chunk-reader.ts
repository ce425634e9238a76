import { read } from "node:fs";
import { promisify } from "node:util";
import { SluiceError, type FileRegion, type Source } from "@sluice/core";
import { discardSource } from "@sluice/core/internal";

const readAt = promisify(read);

/** Reads a source in chunks, exactly as many bytes as it promised. */
export interface ChunkReader {
  /**
   * The next chunk; `undefined` at the end. It may be overwritten when the third one after it is
   * asked for, and not before. Rejects with `interrupted` when the source has less or more.
   */
  readonly next: () => Promise<Uint8Array | undefined>;
  readonly close: (error?: unknown) => void;
}

/** Makes a reader of chunks of at most `chunkBytes` over the fastest face that a source has. */
export function createChunkReader(source: Source, size: number, chunkBytes: number): ChunkReader {
  const { next, close } = source.file
    ? readFile(source.file, chunkBytes)
    : split(source.bytes ? once(source.bytes) : readBody(source.body), chunkBytes);
  let givenBytes = 0;
  return {
    async next() {
      const chunk = await next();
      givenBytes += chunk?.length ?? 0;
      if (chunk ? givenBytes > size : givenBytes < size)
        throw new SluiceError(
          "interrupted",
          `stdio: the source does not have the ${size} bytes that it promised`,
        );
      return chunk;
    },
    close,
  };
}

function once(bytes: Uint8Array): ChunkReader {
  let left: Uint8Array | undefined = bytes;
  return {
    async next() {
      const all = left;
      left = undefined;
      return all;
    },
    close() {},
  };
}

function readBody(body: ReadableStream<Uint8Array>): ChunkReader {
  const reader = body.getReader();
  return {
    async next() {
      const { done, value } = await reader.read();
      return done ? undefined : value;
    },
    close(reason) {
      reader.cancel(reason).catch(() => {});
    },
  };
}

/** The same in chunks that are not too large, and never empty. */
function split({ next, close }: ChunkReader, chunkBytes: number): ChunkReader {
  let rest: Uint8Array | undefined;
  return {
    async next() {
      while (rest?.length === 0 || !rest) {
        rest = await next();
        if (!rest) return undefined;
      }
      const chunk = rest.subarray(0, chunkBytes);
      rest = rest.subarray(chunk.length);
      return chunk;
    },
    close,
  };
}

function readFile(file: FileRegion, chunkBytes: number): ChunkReader {
  // two are being sent while another is filled
  const buffers = Array.from({ length: 3 }, () =>
    Buffer.allocUnsafeSlow(Math.min(chunkBytes, file.end - file.start)),
  );
  let at = file.start;
  let turn = 0;
  return {
    async next() {
      if (at === file.end) return undefined;
      const buffer = buffers[(turn += 1) % buffers.length]!;
      const wantedBytes = Math.min(chunkBytes, file.end - at);
      for (let filled = 0; filled < wantedBytes;) {
        const { bytesRead } = await readAt(
          file.fd,
          buffer,
          filled,
          wantedBytes - filled,
          at + filled,
        );
        if (bytesRead === 0)
          throw new SluiceError("interrupted", "stdio: the file ended before its promised size");
        filled += bytesRead;
      }
      at += wantedBytes;
      // before the last chunk, so that a file that changed during the read is never complete
      if (at === file.end) await file.verify();
      return buffer.subarray(0, wantedBytes);
    },
    close: (error) => void discardSource({ file, body: new ReadableStream() }, error),
  };
}
