import { constants } from "node:fs";
import { lstat, unlink, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
import type { ChunkSink } from "../net/exchange.ts";
import {
  isSharedChunk,
  ownRun,
  sharedRun,
  type ChunkRun,
  FileWrites,
} from "./write/file-writes.ts";
import { diskError } from "./disk-error.ts";
import { FileThread } from "./write/file-thread.ts";
import { randomPartName } from "./part-name.ts";

/** A file that is being written beside its final place, under a name of its own. */
export interface PartFile {
  readonly path: string;
  readonly directory: string;
  /** Prepares for a file of this many bytes. */
  expect(size: number): void;
  /** Bytes at its beginning that are written without a gap. */
  gapless(): number;
  /** A buffer for chunks that follow each other, written `minBytes` at a time. There may be several. */
  writeBuffer(minBytes: number): WriteBuffer;
  /** True while the write queue is so long that more bytes would only wait. */
  isBusy(): boolean;
  flush(): Promise<void>;
  restart(): Promise<void>;
  /**
   * Waits for every write, makes them durable, and tells the size and the SHA-256 of what was written.
   * Throws `corrupt` when another file is in its place, or one of another length: that one must not
   * be published.
   */
  finish(): Promise<{ readonly size: number; readonly sha256: string }>;
  /** Makes the gapless part durable. */
  sync(): Promise<void>;
  /**
   * Ends all writing and cuts off whatever is not surely on the disk without a gap, and `spareBytes` of the rest. The
   * file is private again. Works even after a failed write.
   */
  cut(spareBytes: number): Promise<void>;
  /** Gives the file its permissions, where the file system has any. */
  allow(mode: number): Promise<void>;
  /** Sets the time of the last change, where the file system lets it. */
  date(modifiedMs: number): Promise<void>;
  /** Closes the descriptor. Idempotent. */
  close(): Promise<void>;
  /** Closes it and deletes the file, unless another one is in its place. */
  discard(): Promise<void>;
}

/** Collects small chunks into large writes. */
interface WriteBuffer extends ChunkSink {
  /** Begins to write what was collected. */
  flush(): Promise<void> | void;
}

interface OpenBuffer extends WriteBuffer {
  drop(): void;
}

/** Creates a part file in a directory; it did not exist before and no link is followed. Default mode: private. */
export async function createPartFile(
  directory: string,
  name: string = randomPartName(),
  mode = 0o600,
): Promise<PartFile> {
  const path = join(directory, name);
  const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants;
  try {
    return partFileOf(
      await openHandle(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, mode),
      path,
      0,
    );
  } catch (error) {
    throw diskError(`save to ${JSON.stringify(directory)}`, error);
  }
}

const syncEveryBytes = 64 * 2 ** 20;

/** A part file over an open descriptor whose first `kept` bytes are to stay. */
export function partFileOf(handle: FileHandle, path: string, kept: number): PartFile {
  let mark: Watermark = createWatermark(kept);
  let thread: FileThread = new FileThread(handle.fd);
  let closed = false;
  const buffers: OpenBuffer[] = [];
  let unsyncedBytes = 0;
  let syncing: Promise<void> | undefined;
  let durable = kept;
  let isLost = false;
  thread.advance(kept);

  const writes = new FileWrites(
    handle,
    () => thread,
    (start, end) => {
      mark.add(start, end);
      thread.advance(mark.value());
      unsyncedBytes += end - start;
      if (unsyncedBytes >= syncEveryBytes) syncing ??= syncBehind();
    },
  );

  /** Has the disk work while bytes still come: the sync at the end finds little left to do. */
  async function syncBehind(): Promise<void> {
    unsyncedBytes = 0;
    try {
      await syncGapless(() => handle.datasync());
    } catch (error) {
      writes.fail(diskError("save", error));
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

  function writeBuffer(minBytes: number): WriteBuffer {
    let run: ChunkRun | undefined;

    function flush(): Promise<void> | void {
      const full = run;
      run = undefined;
      return full && writes.push(full);
    }

    const opened: OpenBuffer = {
      write(chunk, at, release) {
        writes.ensureSound();
        const isShared = isSharedChunk(chunk, release);
        // a run is written by one thread
        if (run && run.isShared !== isShared) void flush();
        run ??= isShared ? sharedRun(at) : ownRun(at);
        run.push(chunk, release);
        return run.bytes() >= minBytes ? flush() : undefined;
      },
      flush,
      drop() {
        run?.release();
        run = undefined;
      },
    };
    buffers.push(opened);
    return opened;
  }

  async function close(): Promise<void> {
    if (closed) return;
    closed = true;
    await writes.idle();
    await syncing;
    await thread.stop();
    await handle.close();
  }

  /** `undefined` if its place has another file or none. */
  async function sizeInPlace(): Promise<number | undefined> {
    try {
      const [here, there] = await Promise.all([
        handle.stat({ bigint: true }),
        lstat(path, { bigint: true }),
      ]);
      return here.dev === there.dev && here.ino === there.ino ? Number(here.size) : undefined;
    } catch {
      return undefined;
    }
  }

  return {
    path,
    directory: dirname(path),
    expect: (size) => thread.expect(size),
    gapless: () => mark.value(),
    writeBuffer,
    isBusy: () => writes.isBusy(),
    async flush() {
      for (const each of buffers) await each.flush();
      await writes.settle(0);
    },
    async restart() {
      // bytes of the version that is given up must never be written into the next one
      for (const each of buffers) each.drop();
      await writes.settle(0);
      await thread.stop();
      await handle.truncate(0);
      mark = createWatermark();
      durable = 0;
      thread = new FileThread(handle.fd);
    },
    async cut(spareBytes) {
      for (const each of buffers) each.drop();
      await writes.idle();
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
      await writes.settle(0);
      const size = mark.value();
      // the disk and the thread work at the same time
      const synced = syncGapless(() => handle.sync());
      const [sha256] = await Promise.all([thread.digest(size), synced]).catch((error) => {
        throw diskError("save", error);
      });
      ensureWhole(path, size, await sizeInPlace());
      return { size, sha256 };
    },
    sync: () => syncGapless(() => handle.datasync()),
    close,
    async discard() {
      const isMine = (await sizeInPlace()) !== undefined;
      await close();
      if (isMine) await unlink(path).catch(() => {});
    },
  };
}

/** What is written out of memory is hashed out of memory: the file must at least be as long as that. */
function ensureWhole(path: string, size: number, found: number | undefined): void {
  if (found === size) return;
  const what =
    found === undefined
      ? `${JSON.stringify(path)} was replaced or deleted while it was written`
      : `${size} bytes were written, but the file has ${found}`;
  throw new SluiceError("corrupt", `client: save: ${what}; start again`);
}

/** How far a file is written without a gap, when its blocks land in any order. */
interface Watermark {
  /** One past the last byte of the gapless part. */
  value(): number;
  /** Records a written block; blocks never overlap. */
  add(start: number, end: number): void;
}

/** A watermark over a file whose first `from` bytes are there. */
export function createWatermark(from = 0): Watermark {
  const ahead = new Map<number, number>();
  let mark = from;
  return {
    value: () => mark,
    add(start, end) {
      ahead.set(start, end);
      for (let next = ahead.get(mark); next !== undefined; next = ahead.get(mark)) {
        ahead.delete(mark);
        mark = next;
      }
    },
  };
}
