import { SluiceError } from "@sluice/core";
import { systemClock, within } from "@sluice/core/async";
import { toSluiceError } from "./files-error.ts";

/** Longest wait for an adapter, in milliseconds. */
const answerMs = 60_000;

/** One call of an adapter, as it is named in errors and ended. */
interface Call {
  readonly who: string;
  readonly signal: AbortSignal | undefined;
}

/**
 * What an adapter answers; its errors are those of Sluice. An abort rejects at once with
 * `signal.reason`: not every adapter listens. What comes too late goes to `discard`.
 */
export async function answerOf<T>(
  { who, signal }: Call,
  ask: () => Promise<T>,
  discard?: (late: T) => void,
): Promise<T> {
  signal?.throwIfAborted();
  const expired = (): SluiceError =>
    new SluiceError("timeout", `${who}: no answer came for ${answerMs} ms`);
  try {
    const wait = { clock: systemClock, timeoutMs: answerMs, expired, signal };
    return await within(ask(), wait, discard);
  } catch (error) {
    signal?.throwIfAborted();
    throw toSluiceError(error, who);
  }
}
