import { systemClock, type Clock } from "@sluice/core/async";
import type { RequestBody, TakeChunk } from "@sluice/transport-http";
import type { UploadRequest } from "./request-facts.ts";
import { uploadError } from "../slots/upload-error.ts";

/** Least pace of a body. Time in which the server itself is busy does not count. */
export interface UploadPace {
  /** Least bytes per second, averaged over `windowMs`. Default: 8,192. */
  readonly minBytesPerSecond?: number;
  /** Milliseconds. Default: 10,000. The first window is free. */
  readonly windowMs?: number;
  /** Longest silence, in milliseconds. Default: 15,000. */
  readonly idleMs?: number;
  /** Longest time for one body, in milliseconds, also while the server is busy. Default: 6 hours. */
  readonly totalMs?: number;
}

/** Reads the body of a request at the pace that is asked of its sender. */
export type ReadBody = (
  request: Pick<UploadRequest, "body" | "signal">,
  take: TakeChunk,
) => Promise<void>;

/** Makes the reader of one endpoint. */
export function createBodyReader(pace: UploadPace): ReadBody {
  return ({ body, signal }, take) => readPaced(body, take, signal, { pace });
}

/** Reads a body as fast as its sender must be; rejects with `timeout` where that is too slow. */
export async function readPaced(
  body: RequestBody | undefined,
  take: TakeChunk,
  signal: AbortSignal,
  { pace, clock = systemClock }: { readonly pace: UploadPace; readonly clock?: Clock },
): Promise<void> {
  if (!body) return;
  const {
    minBytesPerSecond = 8_192,
    windowMs = 10_000,
    idleMs = 15_000,
    totalMs = 6 * 3_600_000,
  } = pace;
  const tickMs = Math.min(1_000, windowMs, idleMs);
  const slow = new AbortController();
  let held = false;
  let bytes = 0;
  let silentMs = 0;
  let windowAgeMs = 0;
  let ageMs = 0;
  let isFirstWindow = true;

  const tick = (): void => {
    ageMs += tickMs;
    if (!held) {
      silentMs += tickMs;
      windowAgeMs += tickMs;
    }
    const isWindowOver = windowAgeMs >= windowMs;
    const tooFew = bytes < (minBytesPerSecond * windowMs) / 1_000;
    if (silentMs >= idleMs || ageMs >= totalMs || (isWindowOver && tooFew && !isFirstWindow))
      return slow.abort(uploadError("timeout", "the body comes too slowly"));
    if (isWindowOver) {
      isFirstWindow = false;
      bytes = windowAgeMs = 0;
    }
    cancel = clock.schedule(tick, tickMs);
  };
  let cancel = clock.schedule(tick, tickMs);
  try {
    await body.read(
      (chunk) => {
        bytes += chunk.byteLength;
        silentMs = 0;
        const wait = take(chunk);
        if (!wait) return undefined;
        held = true;
        return wait.finally(() => void (held = false));
      },
      AbortSignal.any([signal, slow.signal]),
    );
  } finally {
    cancel();
  }
}
