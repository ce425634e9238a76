import type { FileHandle } from "node:fs/promises";

/** Chunks are gathered to this much, or this many, before they are written together. */
const gatherBytes = 1024 * 1024;
const gatherChunks = 512;
/** Bytes that all files of this process gather together, but for 64 KiB of each. */
const gatherBytesOfAll = 4 * 1024 * 1024;
const minGatherBytes = 64 * 1024;
let busyFiles = 0;

/**
 * Writes chunks to a file one after the other, while the next are gathered: up to 2 MiB wait in memory, and
 * less of each where many files are written. */
export interface GatheredWrites {
  /** Takes a chunk. It waits while two gatherings are on their way. Rejects with an earlier error. */
  append(chunk: Uint8Array): Promise<void>;
  /** Waits until all is written, and what is being flushed is on the disk. Gives where the file ends then. */
  settle(): Promise<number>;
  /** Waits for writes in progress and forgets the rest. Never rejects. */
  end(): Promise<void>;
}

interface GatheredOptions {
  /** Where the first chunk goes. Default: 0. */
  readonly position?: number;
  /** Does the work of one gathering, which goes to `position`. Default: at once. */
  readonly around?: (position: number, write: () => Promise<void>) => Promise<void>;
}

/** Makes the writes of one open file. */
export function createGatheredWrites(
  file: FileHandle,
  { position: start = 0, around = (_position, write) => write() }: GatheredOptions = {},
): GatheredWrites {
  let gathered: Uint8Array[] = [];
  let gatheredBytes = 0;
  let position = start;
  let writing = Promise.resolve();
  const flush = createFlushBehind(file);

  let isBusy = false;
  const setBusy = (busy: boolean): void => {
    if (busy !== isBusy) busyFiles += busy ? 1 : -1;
    isBusy = busy;
  };
  const startWriting = (): void => {
    if (gathered.length === 0) return;
    const chunks = gathered;
    const bytes = gatheredBytes;
    gathered = [];
    gatheredBytes = 0;
    const before = writing;
    writing = (async () => {
      await before;
      await around(position, () => writeAll(file, chunks, position));
      position += bytes;
      flush.wrote(bytes);
    })();
    // the next step that waits for it throws the error
    writing.catch(() => {});
  };

  return {
    async append(chunk) {
      setBusy(true);
      gathered.push(chunk);
      gatheredBytes += chunk.byteLength;
      const max = Math.max(minGatherBytes, Math.min(gatherBytes, gatherBytesOfAll / busyFiles));
      if (gatheredBytes < max && gathered.length < gatherChunks) return;
      await writing;
      startWriting();
    },
    async settle() {
      startWriting();
      await writing;
      await flush.settle();
      return position;
    },
    async end() {
      gathered = [];
      await writing.catch(() => {});
      await flush.settle().catch(() => {});
      setBusy(false);
    },
  };
}

/** Writes all of the chunks; the system may take fewer bytes at a time than it was given. */
async function writeAll(
  file: FileHandle,
  chunks: readonly Uint8Array[],
  start: number,
): Promise<void> {
  let position = start;
  let rest = chunks.filter(({ byteLength }) => byteLength > 0);
  while (rest.length > 0) {
    let { bytesWritten } = await file.writev(rest, position);
    position += bytesWritten;
    const next: Uint8Array[] = [];
    for (const chunk of rest) {
      const takenBytes = Math.min(bytesWritten, chunk.byteLength);
      bytesWritten -= takenBytes;
      if (takenBytes < chunk.byteLength) next.push(chunk.subarray(takenBytes));
    }
    rest = next;
  }
}

/** This many bytes are written before a flush to disk begins. */
const stepBytes = 32 * 1024 * 1024;

/** Flushes a large file while it is still being written. */
interface FlushBehind {
  /** Bytes were written. Waits for nothing. */
  wrote(bytes: number): void;
  /** Waits for flushes in progress; rejects when any of them failed, since the system says that only once. */
  settle(): Promise<void>;
}

/** The disk works while the sender sends, so that the flush at the end has little left to wait for. */
function createFlushBehind(file: FileHandle): FlushBehind {
  let pending = 0;
  let flushing: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;
  return {
    wrote(bytes) {
      pending += bytes;
      if (flushing || pending < stepBytes) return;
      pending = 0;
      flushing = file
        .datasync()
        .catch((error: unknown) => void (failure ??= { error }))
        .finally(() => void (flushing = undefined));
    },
    async settle() {
      await flushing;
      if (failure) throw failure.error;
    },
  };
}
