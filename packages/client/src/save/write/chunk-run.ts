import { ByteQueue } from "@sluice/core";

/** Chunks that lie one after the other in a file, collected for one write. */
export interface ChunkRun {
  /** Where they begin in the file. */
  readonly start: number;
  /** All of them lie in memory that other threads can read. */
  readonly isShared: boolean;
  bytes(): number;
  /** Adds the chunk that follows. */
  push(chunk: Uint8Array, release: (() => void) | undefined): void;
  chunks(): readonly Uint8Array[];
  /** Gives back the memory that the chunks were lent in. */
  release(): void;
}

/** True for a chunk of a lent block that other threads can read. */
export function isSharedChunk(chunk: Uint8Array, release: (() => void) | undefined): boolean {
  return release !== undefined && chunk.buffer instanceof SharedArrayBuffer;
}

/** A run of chunks of this process's own memory. It copies small ones together. */
export function createOwnRun(start: number): ChunkRun {
  const queue = new ByteQueue();
  const releases: (() => void)[] = [];
  return {
    start,
    isShared: false,
    bytes: () => queue.bytes,
    push(chunk, release) {
      const isCopied = queue.push(chunk);
      if (isCopied) release?.();
      else if (release) releases.push(release);
    },
    chunks: () => queue.take(),
    release() {
      for (const release of releases.splice(0)) release();
    },
  };
}

/** A run of shared chunks. Those that follow each other in a block become one, however small they are. */
export function createSharedRun(start: number): ChunkRun {
  const chunks: Uint8Array[] = [];
  const releases: (() => void)[] = [];
  let bytes = 0;
  return {
    start,
    isShared: true,
    bytes: () => bytes,
    push(chunk, release) {
      bytes += chunk.length;
      const joined = join(chunks.at(-1), chunk);
      if (joined) chunks[chunks.length - 1] = joined;
      else chunks.push(chunk);
      if (!release) return;
      // one hold on a block is enough, however many chunks of it there are
      if (releases.at(-1) === release) release();
      else releases.push(release);
    },
    chunks: () => chunks,
    release() {
      for (const release of releases.splice(0)) release();
    },
  };
}

function join(before: Uint8Array | undefined, chunk: Uint8Array): Uint8Array | undefined {
  if (before?.buffer !== chunk.buffer) return undefined;
  if (before.byteOffset + before.length !== chunk.byteOffset) return undefined;
  return new Uint8Array(chunk.buffer, before.byteOffset, before.length + chunk.length);
}
