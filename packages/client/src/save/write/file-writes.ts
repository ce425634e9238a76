import type { FileHandle } from "node:fs/promises";
import type { ChunkRun } from "./chunk-run.ts";
import { diskError } from "../disk-error.ts";
import type { FileThread } from "./file-thread.ts";
import { writeChunks } from "./write-chunks.ts";

/** Writes to one file that are on their way, in bounded memory. */
export interface FileWrites {
  /** Writes a run in its turn, and gives its memory back. A promise means: too much is on its way. */
  push(run: ChunkRun): Promise<void> | void;
  /** Waits until no more than so many bytes are on their way. Throws what stopped a write. */
  settle(mostBytes: number): Promise<void>;
  /** Waits for every write, also after a fault. */
  idle(): Promise<void>;
  /** True while so much waits that more bytes would only wait longer. */
  isBusy(): boolean;
  /** Throws what stopped a write. */
  ensureSound(): void;
  /** Stops all writes for a reason of its own. */
  fail(fault: unknown): void;
}

const mostQueuedBytes = 4 * 2 ** 20;
const busyBytes = 2 ** 20 - 2 ** 17;

/**
 * Writes runs of shared chunks in the file's thread while it takes them, and all others here.
 * `onWritten` hears of each range that is in the file.
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

  // one write at a time, of all that came meanwhile: the slower the disk, the larger the writes
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

  const isAbove = (mostBytes: number): boolean => queuedBytes > mostBytes;

  async function settle(mostBytes: number): Promise<void> {
    while (isAbove(mostBytes)) {
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
      return queuedBytes > mostQueuedBytes ? settle(mostQueuedBytes) : undefined;
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
