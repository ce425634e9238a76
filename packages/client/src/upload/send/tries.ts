import { SluiceError } from "@sluice/core";
import { sleep } from "@sluice/core/async";

const maxTries = 5;
const maxPauseMs = 60_000;
/** One byte per connection is no progress: a server could keep a client busy for ever. */
const progressBytes = 65_536;

/** Tries that are left before an upload is given up; they begin anew with every 64 KiB of progress. */
export interface Tries {
  /** The server has this many bytes for good. */
  progressed(bytes: number): void;
  /** Waits before another try, or throws the error when there was one too many or it cannot be mended. */
  again(error: unknown): Promise<void>;
}

/** Counts tries; pauses grow from half a second and are spread at random. */
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
      if (!SluiceError.is(error) || !error.retryable || ++tries > maxTries) throw error;
      const { retryAfterMs } = error;
      if (retryAfterMs !== undefined && retryAfterMs > maxPauseMs) throw error;
      const backoffMs = 500 * 2 ** (tries - 1) * (0.5 + Math.random() / 2);
      await sleep((retryAfterMs ?? backoffMs) * pauseScale, signal);
    },
  };
}
