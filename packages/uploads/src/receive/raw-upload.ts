import { type Clock, watchThroughput } from "@sluice/core/internal";
import type { TakeChunk } from "@sluice/transport-http";
import type { CheckedFile } from "../checks/file-checks.ts";
import type { QuotaTracker } from "../limits/quota-tracker.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";
import { newId } from "../slots/slots.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { FileRecord } from "../store/layout.ts";
import type { SlotFiles } from "../store/slot-files.ts";
import { digestOfWhole, type UploadRequest } from "./request-facts.ts";

/** What it takes to receive files. */
export interface ReceiverParts {
  readonly files: SlotFiles;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
  readonly readBody: ReadBody;
  readonly onError: (error: unknown) => void;
}

/** Takes the whole body of a request as one file of its slot, or keeps nothing of it. */
export async function receiveFile(
  { files, quota, progress, readBody }: ReceiverParts,
  request: UploadRequest,
): Promise<FileRecord[]> {
  const { slot, facts, signal } = request;
  const { uploadId, owner, terms } = slot;
  const { contentLength: size, contentType: declaredType, name } = facts;
  const sha256 = digestOfWhole(facts);
  ensureSize(size, terms.maxBytes);
  const fileId = newId();
  await quota.hold(owner, fileId, size ?? terms.maxBytes);
  progress.begin(slot, fileId, { total: size });
  let received: CheckedFile;
  try {
    // rejects if the slot takes no more files
    await files.openState(slot, signal);
    const announced = { fileId, name, declaredType, size, sha256 };
    const sink = await files.openSink(slot, announced, { signal });
    try {
      await readBody(request, (chunk) => {
        const wait = sink.write(chunk);
        progress.add(uploadId, fileId, chunk.byteLength);
        request.onBytes(chunk.byteLength);
        return wait;
      });
      received = await sink.finish();
    } catch (error) {
      await sink.abort();
      throw error;
    }
    return await files.store(slot, [{ fileId, ...received }], signal);
  } catch (error) {
    await quota.drop(owner, fileId);
    progress.drop(uploadId, fileId);
    throw error;
  }
}

/** Refuses a file whose announced length is too large. */
export function ensureSize(size: number | undefined, maxBytes: number): void {
  if (size !== undefined && size > maxBytes)
    throw new RefusedFile("too_large", `at most ${maxBytes} bytes are taken`);
}

/** Minimum pace of a body. Time in which the server itself is busy does not count. */
export interface UploadPace {
  /** Minimum bytes per second, averaged over `rateWindowMs`. Default: 8,192. */
  readonly minBytesPerSecond?: number;
  /** Milliseconds. Default: 10,000. The first window is not checked. */
  readonly rateWindowMs?: number;
  /** Longest silence, in milliseconds. Default: 15,000. */
  readonly idleMs?: number;
  /** Longest time for one body, in milliseconds, also while the server is busy. Default: 6 hours. */
  readonly totalMs?: number;
}

/** Reads the body of a request; rejects with `timeout` if it comes too slowly. */
type ReadBody = (request: Pick<UploadRequest, "body" | "signal">, take: TakeChunk) => Promise<void>;

/** Makes a reader that asks senders for this pace. */
export function createBodyReader(pace: UploadPace, clock?: Clock): ReadBody {
  const { minBytesPerSecond = 8_192, rateWindowMs = 10_000 } = pace;
  const { idleMs = 15_000, totalMs = 6 * 3_600_000 } = pace;
  const limits = { minBytesPerSecond, windowMs: rateWindowMs, idleMs, totalMs };
  const rules = { ...limits, isFirstWindowFree: true, holdCountsInTotal: true };

  return async ({ body, signal }, take) => {
    if (!body) return;
    const slow = new AbortController();
    const giveUp = (): void => slow.abort(uploadError("timeout", "the body comes too slowly"));
    const watch = watchThroughput(rules, giveUp, clock);
    try {
      await body.read(
        (chunk) => {
          watch.moved(chunk.byteLength);
          const wait = take(chunk);
          if (!wait) return undefined;
          watch.hold();
          return wait.finally(() => watch.go());
        },
        AbortSignal.any([signal, slow.signal]),
      );
    } finally {
      watch.stop();
    }
  };
}
