import { type Clock, watchThroughput } from "@sluice/core/internal";
import type { TakeChunk } from "@sluice/transport-http";
import type { QuotaTracker } from "../limits/quota-tracker.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { SlotFiles } from "../store/slot-files.ts";
import type { UploadRequest } from "./request-facts.ts";

/** Collaborators that receive files. */
export interface ReceiverParts {
  readonly files: SlotFiles;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
  readonly readBody: ReadBody;
  readonly onError: (error: unknown) => void;
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

/** Makes a reader that enforces this pace. */
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
