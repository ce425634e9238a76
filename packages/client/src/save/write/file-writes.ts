import type { FileHandle } from "node:fs/promises";
import { ByteQueue } from "@sluice/core";
import { diskError } from "../disk-error.ts";
import { maxWriteBytes, type FileThread } from "./file-thread.ts";

/** Writes in progress to one file, in bounded memory. */
interface FileWrites {
  /** Writes a run in its turn, and returns its memory. A promise means: too much is in progress. */
  push(run: ChunkRun): Promise<void> | void;
  /** Waits until at most `maxBytes` are in progress. Throws the fault that stopped a write. */
  settle(maxBytes: number): Promise<void>;
  /** Waits for every write, even after a fault. */
  idle(): Promise<void>;
  /** True while the queue is so long that more bytes would only wait. */
  isBusy(): boolean;
  /** Throws the fault that stopped a write. */
  ensureSound(): void;
  /** Stops all writes for another reason. */
  fail(fault: unknown): void;
}

const maxQueuedBytes = 4 * 2 ** 20;

const busyBytes = 2 ** 20 - 2 ** 17;

/**
 * Writes runs of shared chunks in the file's thread while it takes them, and all others here. `onWritten` gets each
 * range that is in the file.
 */
export function createFileWrites(
  handle: FileHandle,
  thread: () => FileThread,
  onWritten: (start: number, end: number) => void,
): FileWrites {
  let fault: unknown;
  const queue: ChunkRun[] = [];
  let queuedBytes = 0;
  let isDraining = false;
  const waiters: (() => void)[] = [];

  function end(runs: readonly ChunkRun[], bytes: number, writtenBytes: number): void {
    const { start } = runs[0] as ChunkRun;
    if (writtenBytes > 0) onWritten(start, start + writtenBytes);
    queuedBytes -= bytes;
    for (const run of runs) run.release();
    for (const goOn of waiters.splice(0)) goOn();
  }

  function writeInThread(run: ChunkRun): void {
    const bytes = run.bytes();
    thread().write(run.chunks(), run.start, (writtenBytes, error) => {
      if (error !== undefined) fault ??= diskError("save", error);
      end([run], bytes, writtenBytes);
    });
  }

  /** Takes runs off the queue that follow each other in the file. */
  function nextBatch(): ChunkRun[] {
    const [first] = queue;
    if (!first) return [];
    let at = first.start;
    const follows = (run: ChunkRun): boolean => run.start === at && ((at += run.bytes()), true);
    const stop = queue.findIndex((run) => !follows(run));
    return queue.splice(0, stop < 0 ? queue.length : stop);
  }

  async function writeBatch(runs: readonly ChunkRun[]): Promise<void> {
    const bytes = runs.reduce((sum, run) => sum + run.bytes(), 0);
    const { start } = runs[0] as ChunkRun;
    const chunks = runs.flatMap((run) => run.chunks());
    let written = start;
    try {
      if (fault !== undefined) return;
      await writeChunks(handle, chunks, start, (position) => (written = position));
      thread().wrote(chunks, start);
    } catch (error) {
      fault ??= diskError("save", error);
    } finally {
      end(runs, bytes, written - start);
    }
  }

  // one write at a time, of all that is queued: the slower the disk, the larger the writes
  async function drain(): Promise<void> {
    isDraining = true;
    for (let runs = nextBatch(); runs.length > 0; runs = nextBatch()) await writeBatch(runs);
    isDraining = false;
  }

  function nextEnd(): Promise<void> {
    return new Promise((resolve) => waiters.push(resolve));
  }

  function ensureSound(): void {
    if (fault !== undefined) throw fault;
  }

  const isAbove = (maxBytes: number): boolean => queuedBytes > maxBytes;

  async function settle(maxBytes: number): Promise<void> {
    while (isAbove(maxBytes)) {
      ensureSound();
      await nextEnd();
    }
    ensureSound();
  }

  return {
    push(run) {
      queuedBytes += run.bytes();
      if (run.isShared && fault === undefined && thread().isReady()) writeInThread(run);
      else {
        queue.push(run);
        if (!isDraining) void drain();
      }
      return queuedBytes > maxQueuedBytes ? settle(maxQueuedBytes) : undefined;
    },
    settle,
    isBusy: () => isAbove(busyBytes),
    async idle() {
      while (isAbove(0)) await nextEnd();
    },
    ensureSound,
    fail(error) {
      fault ??= error;
    },
  };
}

/** Writes chunks one after the other from an offset on, and tells after each write where the next one begins. */
async function writeChunks(
  handle: FileHandle,
  chunks: readonly Uint8Array[],
  at: number,
  onWritten: (position: number) => void,
): Promise<void> {
  let rest = chunks;
  let position = at;
  while (rest.length > 0) {
    const { bytesWritten } = await handle.writev(upTo(maxWriteBytes, rest), position);
    position += bytesWritten;
    onWritten(position);
    rest = from(bytesWritten, rest);
  }
}

/** The first `bytes` bytes of the chunks. */
function upTo(bytes: number, chunks: readonly Uint8Array[]): Uint8Array[] {
  const some: Uint8Array[] = [];
  for (const chunk of chunks) {
    if (bytes === 0) break;
    const part = chunk.length > bytes ? chunk.subarray(0, bytes) : chunk;
    some.push(part);
    bytes -= part.length;
  }
  return some;
}

/** What comes after the first `bytes` bytes of the chunks. */
function from(bytes: number, chunks: readonly Uint8Array[]): Uint8Array[] {
  const rest: Uint8Array[] = [];
  for (const chunk of chunks) {
    if (chunk.length > bytes) rest.push(bytes > 0 ? chunk.subarray(bytes) : chunk);
    bytes = Math.max(0, bytes - chunk.length);
  }
  return rest;
}

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
