import { constants } from "node:fs";
import { lstat, open, unlink, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ByteQueue, SluiceError } from "@sluice/core";
import type { ChunkSink } from "../net/chunk-sink.ts";
import { diskError } from "./disk-error.ts";
import { randomPartName } from "./part-name.ts";
import { createTrailingHash, type TrailingHash } from "./trailing-hash.ts";
import { createWatermark, type Watermark } from "./watermark.ts";
import { writeChunks } from "./write-chunks.ts";

/** A file that is being written beside its final place, under a name of its own. */
export interface PartFile {
  readonly path: string;
  readonly directory: string;
  /** Bytes at its beginning that are written without a gap. */
  gapless(): number;
  /** A buffer for chunks that follow each other, written `leastBytes` at a time. There may be several. */
  writeBuffer(leastBytes: number): WriteBuffer;
  /** Writes what the buffers hold. */
  flush(): Promise<void>;
  /** Forgets everything that was written. */
  restart(): Promise<void>;
  /** Waits for every write, makes them durable, and tells the size and the SHA-256 of what is there. */
  finish(): Promise<{ readonly size: number; readonly sha256: string }>;
  /** Throws `corrupt` when another file is in its place: that one must not be published. */
  ensureInPlace(): Promise<void>;
  /** Makes the gapless part durable. */
  sync(): Promise<void>;
  /**
   * Ends all writing and cuts off whatever is not surely on the disk without a gap, and `spareBytes`
   * of the rest. The file is private again. Works also after a write has failed.
   */
  cut(spareBytes: number): Promise<void>;
  /** Gives the file its permissions, where the file system has any. */
  allow(mode: number): Promise<void>;
  /** Sets the time of the last change, where the file system lets it. */
  date(modifiedMs: number): Promise<void>;
  /** Closes the descriptor. Idempotent. */
  close(): Promise<void>;
  /** Closes it and deletes the file, unless it is another one by now. */
  discard(): Promise<void>;
}

/** Collects small chunks into large writes. */
interface WriteBuffer extends ChunkSink {
  /** Begins to write what was collected. */
  flush(): Promise<void> | void;
}

interface OpenBuffer extends WriteBuffer {
  /** Forgets what was collected. */
  drop(): void;
}

/** Chunks that lie one after the other in the file, collected for one write. */
interface ChunkRun {
  readonly chunks: ByteQueue;
  readonly start: number;
  readonly releases: (() => void)[];
}

/** Creates a part file in a directory; it did not exist before and no link is followed. */
export async function createPartFile(
  directory: string,
  name: string = randomPartName(),
): Promise<PartFile> {
  const path = join(directory, name);
  const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants;
  try {
    return partFileOf(await open(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, 0o600), path, 0);
  } catch (error) {
    throw diskError(`save to ${JSON.stringify(directory)}`, error);
  }
}

const mostQueuedBytes = 4 * 2 ** 20;
const syncEveryBytes = 64 * 2 ** 20;

/** A part file over an open descriptor whose first `kept` bytes are to stay. */
export function partFileOf(handle: FileHandle, path: string, kept: number): PartFile {
  let mark: Watermark = createWatermark(kept);
  let hash: TrailingHash = createTrailingHash(handle.fd);
  let fault: unknown;
  let closed = false;
  const buffers: OpenBuffer[] = [];
  const queue: ChunkRun[] = [];
  let queuedBytes = 0;
  let writing: Promise<void> | undefined;
  let batch: Promise<void> = Promise.resolve();
  let unsyncedBytes = 0;
  let syncing: Promise<void> | undefined;
  let durable = kept;
  let isLost = false;
  hash.advance(kept);

  /** Takes runs off the queue that follow each other in the file. */
  function nextBatch(): ChunkRun[] {
    const [first] = queue;
    if (!first) return [];
    let end = first.start;
    const follows = (run: ChunkRun): boolean =>
      run.start === end && ((end += run.chunks.bytes), true);
    const stop = queue.findIndex((run) => !follows(run));
    return queue.splice(0, stop < 0 ? queue.length : stop);
  }

  async function writeBatch(runs: readonly ChunkRun[]): Promise<void> {
    const bytes = runs.reduce((sum, { chunks }) => sum + chunks.bytes, 0);
    const { start } = runs[0] as ChunkRun;
    const pieces = runs.flatMap(({ chunks }) => chunks.take());
    let written = start;
    try {
      if (fault !== undefined) return;
      await writeChunks(handle, pieces, start, (position) => (written = position));
    } catch (error) {
      fault = diskError("save", error);
    } finally {
      if (written > start) mark.add(start, written);
      hash.advance(mark.value());
      unsyncedBytes += written - start;
      if (unsyncedBytes >= syncEveryBytes) syncing ??= syncBehind();
      queuedBytes -= bytes;
      for (const { releases } of runs) for (const release of releases) release();
    }
  }

  /** Has the disk work while bytes still come: the sync at the end finds little left to do. */
  async function syncBehind(): Promise<void> {
    unsyncedBytes = 0;
    try {
      await syncGapless(() => handle.datasync());
    } catch (error) {
      fault ??= diskError("save", error);
    } finally {
      syncing = undefined;
    }
  }

  async function syncGapless(sync: () => Promise<void>): Promise<void> {
    const from = mark;
    const to = mark.value();
    try {
      await sync();
      if (from === mark) durable = to;
    } catch (error) {
      // the system reports such a loss once, and a later sync succeeds without these bytes
      isLost = true;
      throw error;
    }
  }

  // one write at a time, of all that came meanwhile: the slower the disk, the larger the writes
  async function drain(): Promise<void> {
    for (let runs = nextBatch(); runs.length > 0; runs = nextBatch()) {
      batch = writeBatch(runs);
      await batch;
    }
    writing = undefined;
  }

  async function settle(mostBytes: number): Promise<void> {
    for (;;) {
      if (fault !== undefined) throw fault;
      if (queuedBytes <= mostBytes) return;
      await batch;
    }
  }

  function writeBuffer(leastBytes: number): WriteBuffer {
    let run: ChunkRun | undefined;

    function flush(): Promise<void> | void {
      if (!run) return undefined;
      queue.push(run);
      queuedBytes += run.chunks.bytes;
      run = undefined;
      writing ??= drain();
      return queuedBytes > mostQueuedBytes ? settle(mostQueuedBytes) : undefined;
    }

    const opened: OpenBuffer = {
      write(chunk, at, release) {
        if (fault !== undefined) throw fault;
        run ??= { chunks: new ByteQueue(), start: at, releases: [] };
        const isCopied = run.chunks.push(chunk);
        if (isCopied) release?.();
        else if (release) run.releases.push(release);
        return run.chunks.bytes >= leastBytes ? flush() : undefined;
      },
      flush,
      drop() {
        for (const release of run?.releases ?? []) release();
        run = undefined;
      },
    };
    buffers.push(opened);
    return opened;
  }

  async function close(): Promise<void> {
    if (closed) return;
    closed = true;
    await writing;
    await syncing;
    await hash.stop();
    await handle.close();
  }

  async function isInPlace(): Promise<boolean> {
    try {
      const [here, there] = await Promise.all([
        handle.stat({ bigint: true }),
        lstat(path, { bigint: true }),
      ]);
      return here.dev === there.dev && here.ino === there.ino;
    } catch {
      return false;
    }
  }

  return {
    path,
    directory: dirname(path),
    gapless: () => mark.value(),
    writeBuffer,
    async flush() {
      for (const each of buffers) await each.flush();
      await settle(0);
    },
    async restart() {
      // bytes of the version that is given up must never be written into the next one
      for (const each of buffers) each.drop();
      await settle(0);
      await hash.stop();
      await handle.truncate(0);
      mark = createWatermark();
      durable = 0;
      hash = createTrailingHash(handle.fd);
    },
    async cut(spareBytes) {
      for (const each of buffers) each.drop();
      await writing;
      await syncing;
      const to = Math.max(0, (isLost ? durable : mark.value()) - spareBytes);
      await handle.truncate(to);
      await handle.chmod(0o600).catch(() => {});
      mark = createWatermark(to);
      await syncGapless(() => handle.datasync());
    },
    async allow(mode) {
      await handle.chmod(mode).catch(() => {});
    },
    async date(modifiedMs) {
      await handle.utimes(new Date(), new Date(modifiedMs)).catch(() => {});
    },
    async finish() {
      await settle(0);
      const size = mark.value();
      // the disk and the hashing thread work at the same time
      const synced = syncGapless(() => handle.sync());
      const [sha256] = await Promise.all([hash.digest(size), synced]).catch((error) => {
        throw diskError("save", error);
      });
      return { size, sha256 };
    },
    async ensureInPlace() {
      if (await isInPlace()) return;
      throw new SluiceError(
        "corrupt",
        `client: save: ${JSON.stringify(path)} was replaced or deleted while it was written; start again`,
      );
    },
    sync: () => syncGapless(() => handle.datasync()),
    close,
    async discard() {
      const mine = await isInPlace();
      await close();
      if (mine) await unlink(path).catch(() => {});
    },
  };
}
