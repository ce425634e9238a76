import type { SluiceError } from "@sluice/core";
import { systemClock } from "@sluice/core/async";
import type { ObjectWriter } from "@sluice/storage";
import { createKindDetector } from "../kind/detect-kind.ts";
import type { ProgressTracker } from "../receive/progress-tracker.ts";
import { ensureSize } from "../receive/raw-upload.ts";
import type { ReadBody } from "../receive/read-body.ts";
import type { UploadRequest } from "../receive/request-facts.ts";
import { createWriteQueue } from "../receive/write-queue.ts";
import { codeOf, RefusedFile, uploadError } from "../slots/upload-error.ts";
import { folderOf, partKey } from "../store/layout.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import type { PartialFile } from "./partial-files.ts";
import type { LockLease } from "./write-lock.ts";

/** A part is cut here: what a crash can cost, and what a service keeps in memory for one request. */
const partBytes = 8 * 1024 * 1024;
/** Or here, so that storage shows of a slow upload, too, that it goes on. */
const partMs = 60_000;

/** Reads the body of a step into parts, and gives the file as it is then. What came before the body broke is kept. */
export type ReceiveStep = (
  request: UploadRequest,
  before: PartialFile,
  options: { readonly length: number | undefined; readonly lease: LockLease },
) => Promise<PartialFile>;

/** Makes the receiver of one endpoint. A step ends early when `leaving` aborts. */
export function createStepReceiver({
  storage,
  progress,
  readBody,
  leaving,
  onError,
}: {
  readonly storage: UploadStorage;
  readonly progress: ProgressTracker;
  readonly readBody: ReadBody;
  readonly leaving: AbortSignal;
  readonly onError: (error: unknown) => void;
}): ReceiveStep {
  return async (request, before, { length, lease }) => {
    const { slot, facts, body } = request;
    const { uploadId, terms } = slot;
    const { fileId, offset, plan } = before;
    const most = length ?? terms.maxBytes;
    ensureSize(offset + (facts.contentLength ?? 0), most);
    const folder = folderOf(slot);
    const ensureOurs = (): void => lease.ensureOurs();
    const appender = createPartAppender(storage, { folder, fileId, offset, ensureOurs });
    // already as it comes, so that gigabytes of the wrong kind are not sent
    const detector = offset === 0 ? createKindDetector(plan, terms.accept) : undefined;
    progress.begin(slot, fileId, { received: offset, total: length });
    const signal = AbortSignal.any([request.signal, leaving]);
    try {
      await readBody({ body, signal }, (chunk) => {
        if (appender.offset + chunk.byteLength > most)
          throw new RefusedFile("too_large", `more than ${most} bytes came`);
        progress.add(uploadId, fileId, chunk.byteLength);
        request.onBytes(chunk.byteLength);
        const wait = appender.write(chunk);
        return detector?.add(chunk)?.then(() => wait) ?? wait;
      });
    } catch (error) {
      await appender.end().catch(onError);
      throw error;
    }
    const end = await appender.end();
    return { fileId, plan, offset: end, parts: [...before.parts, ...appender.keys] };
  };
}

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
}

/**
 * Goes on with a file at `offset`. Each part is an object that is made once and appears whole, so of
 * two writers at the same place one fails with `already_exists`, and a crash costs the last part only.
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
  // an upload that was cut off keeps what had come, so nothing here ends with its request
  let writer: ObjectWriter | undefined;
  let writerBytes = 0;
  let writerBegan = 0;
  let kept = start;
  let offset = start;
  const keys: string[] = [];

  async function openPart(): Promise<ObjectWriter> {
    try {
      return await storage.write(partKey(folder, fileId, kept), { ifAbsent: true });
    } catch (error) {
      throw isTaken(error) ? overtaken(error) : error;
    }
  }

  async function keep(): Promise<void> {
    if (!writer) return;
    const whole = writer;
    writer = undefined;
    try {
      ensureOurs();
      await whole.commit();
    } catch (error) {
      await whole.abort();
      throw isTaken(error) ? overtaken(error) : error;
    }
    keys.push(partKey(folder, fileId, kept));
    kept += writerBytes;
    writerBytes = 0;
  }

  const queue = createWriteQueue(async (chunk) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (!writer) {
        writer = await openPart();
        writerBegan = systemClock.now();
      }
      const piece = rest.subarray(0, partBytes - writerBytes);
      rest = rest.subarray(piece.length);
      writerBytes += piece.length;
      await writer.write(piece);
      const isOld = systemClock.now() - writerBegan >= partMs;
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
      return kept;
    },
  };
}

function isTaken(error: unknown): boolean {
  return codeOf(error) === "precondition_failed";
}

function overtaken(cause: unknown): SluiceError {
  return uploadError("already_exists", "another request went on with this file", {
    cause,
  });
}
