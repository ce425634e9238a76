import type { FileHandle } from "node:fs/promises";
import { ByteQueue } from "@sluice/core/internal";
import { diskError } from "../disk-error.ts";
import { maxWriteBytes, type FileThread } from "./file-thread.ts";

const maxQueuedBytes = 4 * 2 ** 20;
const busyBytes = 2 ** 20 - 2 ** 17;

/**
 * Writes in progress to one file, in bounded memory: runs of shared chunks in the file's thread while it takes them,
 * and all others here. `onWritten` gets each range that is in the file.
 */
export class FileWrites {
  readonly #handle: FileHandle;
  readonly #thread: () => FileThread;
  readonly #onWritten: (start: number, end: number) => void;
  #fault: unknown;
  readonly #queue: ChunkRun[] = [];
  #queuedBytes = 0;
  #isDraining = false;
  readonly #waiters: (() => void)[] = [];

  constructor(
    handle: FileHandle,
    thread: () => FileThread,
    onWritten: (start: number, end: number) => void,
  ) {
    this.#handle = handle;
    this.#thread = thread;
    this.#onWritten = onWritten;
  }

  /** Writes a run in its turn, and returns its memory. A promise means: too much is in progress. */
  push(run: ChunkRun): Promise<void> | void {
    this.#queuedBytes += run.bytes();
    if (run.isShared && this.#fault === undefined && this.#thread().isReady())
      this.#writeInThread(run);
    else {
      this.#queue.push(run);
      if (!this.#isDraining) void this.#drain();
    }
    return this.#queuedBytes > maxQueuedBytes ? this.settle(maxQueuedBytes) : undefined;
  }

  /** Waits until at most `maxBytes` are in progress. Throws the fault that stopped a write. */
  async settle(maxBytes: number): Promise<void> {
    while (this.#isAbove(maxBytes)) {
      this.ensureSound();
      await this.#nextEnd();
    }
    this.ensureSound();
  }

  /** True while the queue is so long that more bytes would only wait. */
  isBusy(): boolean {
    return this.#isAbove(busyBytes);
  }

  /** Waits for every write, even after a fault. */
  async idle(): Promise<void> {
    while (this.#isAbove(0)) await this.#nextEnd();
  }

  /** Throws the fault that stopped a write. */
  ensureSound(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }

  /** Stops all writes for another reason. */
  fail(error: unknown): void {
    this.#fault ??= error;
  }

  #end(runs: readonly ChunkRun[], bytes: number, writtenBytes: number): void {
    const { start } = runs[0] as ChunkRun;
    if (writtenBytes > 0) this.#onWritten(start, start + writtenBytes);
    this.#queuedBytes -= bytes;
    for (const run of runs) run.release();
    for (const goOn of this.#waiters.splice(0)) goOn();
  }

  #writeInThread(run: ChunkRun): void {
    const bytes = run.bytes();
    this.#thread().write(run.chunks(), run.start, (writtenBytes, error) => {
      if (error !== undefined) this.#fault ??= diskError("save", error);
      this.#end([run], bytes, writtenBytes);
    });
  }

  /** Takes runs off the queue that follow each other in the file. */
  #nextBatch(): ChunkRun[] {
    const [first] = this.#queue;
    if (!first) return [];
    let at = first.start;
    const follows = (run: ChunkRun): boolean => run.start === at && ((at += run.bytes()), true);
    const stop = this.#queue.findIndex((run) => !follows(run));
    return this.#queue.splice(0, stop < 0 ? this.#queue.length : stop);
  }

  async #writeBatch(runs: readonly ChunkRun[]): Promise<void> {
    const bytes = runs.reduce((sum, run) => sum + run.bytes(), 0);
    const { start } = runs[0] as ChunkRun;
    const chunks = runs.flatMap((run) => run.chunks());
    let written = start;
    try {
      if (this.#fault !== undefined) return;
      await writeChunks(this.#handle, chunks, start, (position) => (written = position));
      this.#thread().wrote(chunks, start);
    } catch (error) {
      this.#fault ??= diskError("save", error);
    } finally {
      this.#end(runs, bytes, written - start);
    }
  }

  // one write at a time, of all that is queued: the slower the disk, the larger the writes
  async #drain(): Promise<void> {
    this.#isDraining = true;
    for (let runs = this.#nextBatch(); runs.length > 0; runs = this.#nextBatch())
      await this.#writeBatch(runs);
    this.#isDraining = false;
  }

  #nextEnd(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #isAbove(maxBytes: number): boolean {
    return this.#queuedBytes > maxBytes;
  }
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
  readonly start: number;
  /** All of them lie in memory that other threads can read. */
  readonly isShared: boolean;
  bytes(): number;
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
export function ownRun(start: number): ChunkRun {
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
export function sharedRun(start: number): ChunkRun {
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
