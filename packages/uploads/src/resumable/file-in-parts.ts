import { systemClock } from "@sluice/core/internal";
import type { ObjectWriter } from "@sluice/storage";
import { createKindDetector } from "../checks/detect-kind.ts";
import { codeOf } from "../slots/upload-error.ts";
import type { FileSink } from "../store/file-sink.ts";
import { WriteQueue } from "../store/write-queue.ts";
import { type FilePlan, folderOf, partKey } from "../store/layout.ts";
import type { SlotFiles } from "../store/slot-files.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import { type FileAddress, alreadyResumed, type PartialFile } from "./partial-file.ts";

/**
 * Opens a file whose parts are objects, for storages that write nothing in steps. `finish` reads all parts and joins
 * them: the digest is computed from what is read back; the parts stay until `PartialFiles.finish` removes them.
 */
export function openFileInParts(
  { storage, files }: { readonly storage: UploadStorage; readonly files: SlotFiles },
  { slot, fileId, lease }: FileAddress,
  {
    plan,
    offset,
    parts,
  }: {
    readonly plan: FilePlan;
    readonly offset: number;
    /** Keys of those that are there, in order. */
    readonly parts: readonly string[];
  },
): PartialFile {
  const ensureOurs = (): void => lease.ensureOurs();
  const folder = folderOf(slot);
  const appender = createPartAppender(storage, { folder, fileId, offset, ensureOurs });
  // looks at the first bytes at once, so that gigabytes of a wrong type are not sent
  const detector = offset === 0 ? createKindDetector(plan, slot.terms.accept) : undefined;

  return {
    fileId,
    plan,
    get offset() {
      return appender.offset;
    },
    write(chunk) {
      const wait = appender.write(chunk);
      return detector?.add(chunk)?.then(() => wait) ?? wait;
    },
    keep: () => appender.end(),
    async finish(signal) {
      const size = await appender.end();
      const sink = await files.openSink(
        slot,
        { ...plan, fileId, size },
        // a request that was suspended must not replace what another one has made of the file
        { signal, beforeCommit: ensureOurs },
      );
      try {
        for (const key of [...parts, ...appender.keys]) await copyPart(storage, key, sink, signal);
        return { fileId, ...(await sink.finish()) };
      } catch (error) {
        await sink.abort();
        throw error;
      }
    },
    keys: () => [...parts, ...appender.keys],
    async discard() {},
    leave: () => appender.abort(),
  };
}

async function copyPart(
  storage: UploadStorage,
  key: string,
  sink: FileSink,
  signal: AbortSignal,
): Promise<void> {
  const { body } = await storage.open(key, { signal });
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      await sink.write(value);
    }
  } catch (error) {
    await reader.cancel(error).catch(() => {});
    throw error;
  }
}

/** A part is cut here: what a crash can cost, and what a service keeps in memory for one request. */
const partBytes = 8 * 1024 * 1024;
/** Or after this time, so that a listing shows that a slow upload is in progress. */
const partMs = 60_000;

/** Takes bytes of a file that comes in parts. */
interface PartAppender {
  /** Where the next byte belongs; all before it is kept for good, or will be by `end`. */
  readonly offset: number;
  /** Keys of the parts that are kept, in order. */
  readonly keys: readonly string[];
  /** A promise means that the next chunk has to wait. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Keeps what has come. Gives the offset that storage shows now. */
  end(): Promise<number>;
  /** Drops the part in progress. May be repeated, also after `end`. */
  abort(): Promise<void>;
}

/**
 * Resumes a file at `offset`. Each part is an object that is made once and appears whole, so of two writers at the
 * same offset one fails with `already_exists`, and a crash costs only the last part.
 */
export function createPartAppender(
  storage: UploadStorage,
  {
    folder,
    fileId,
    offset: start,
    ensureOurs,
  }: {
    readonly folder: string;
    readonly fileId: string;
    readonly offset: number;
    /** Throws when another request may have the file: nothing more is kept then. */
    readonly ensureOurs: () => void;
  },
): PartAppender {
  // an interrupted upload keeps what has come, so no call here takes the signal of the request
  let writer: ObjectWriter | undefined;
  let writerBytes = 0;
  let writerBegunAt = 0;
  let keptBytes = start;
  let offset = start;
  const keys: string[] = [];

  async function openPart(): Promise<ObjectWriter> {
    try {
      return await storage.write(partKey(folder, fileId, keptBytes), { ifAbsent: true });
    } catch (error) {
      throw isTaken(error) ? alreadyResumed(error) : error;
    }
  }

  async function keep(): Promise<void> {
    if (!writer) return;
    const finishedWriter = writer;
    writer = undefined;
    try {
      ensureOurs();
      await finishedWriter.commit();
    } catch (error) {
      await finishedWriter.abort();
      throw isTaken(error) ? alreadyResumed(error) : error;
    }
    keys.push(partKey(folder, fileId, keptBytes));
    keptBytes += writerBytes;
    writerBytes = 0;
  }

  const queue = new WriteQueue(async (chunk) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (!writer) {
        writer = await openPart();
        writerBegunAt = systemClock.now();
      }
      const piece = rest.subarray(0, partBytes - writerBytes);
      rest = rest.subarray(piece.length);
      writerBytes += piece.length;
      await writer.write(piece);
      const isOld = systemClock.now() - writerBegunAt >= partMs;
      if (writerBytes === partBytes || isOld) await keep();
    }
  });

  return {
    get offset() {
      return offset;
    },
    keys,
    write(chunk) {
      offset += chunk.byteLength;
      return queue.push(chunk);
    },
    async end() {
      try {
        await queue.drain();
        await keep();
      } catch (error) {
        await writer?.abort();
        throw error;
      }
      return keptBytes;
    },
    async abort() {
      await queue.drain().catch(() => {});
      await writer?.abort();
    },
  };
}

function isTaken(error: unknown): boolean {
  return codeOf(error) === "precondition_failed";
}
