import { progressBytes, retryDelayMs, SluiceError } from "@sluice/core";
import { sleep } from "@sluice/core/async";

/** Tries that are left before an upload is given up; they begin anew with every 64 KiB of progress. */
export interface Tries {
  /** The server has this many bytes for good. */
  progressed(bytes: number): void;
  /** Waits before another try, or throws the error when there was one too many or it cannot be mended. */
  again(error: unknown): Promise<void>;
}

/** Counts tries, with the pauses of a download. */
export function countTries(signal: AbortSignal, pauseScale: number): Tries {
  let tries = 0;
  let mark = 0;
  return {
    progressed(bytes) {
      if (bytes - mark < progressBytes) return;
      mark = bytes;
      tries = 0;
    },
    async again(error) {
      signal.throwIfAborted();
      if (!SluiceError.is(error) || !error.retryable) throw error;
      const delayMs = retryDelayMs(tries, error.retryAfterMs, Math.random());
      if (delayMs === undefined) throw error;
      tries += 1;
      await sleep(delayMs * pauseScale, signal);
    },
  };
}
