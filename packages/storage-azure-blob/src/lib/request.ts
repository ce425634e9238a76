import { SluiceError } from "@sluice/core";
import { systemClock, within } from "@sluice/core/async";
import { toSluiceError } from "./azure-error.ts";

/** One call, as it is named in errors and ended. */
export interface Call {
  /** How its errors start: `azure-blob: open "a.txt"`. */
  readonly who: string;
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for the head of the answer. 60 s unless told. */
  readonly timeoutMs?: number;
}

/**
 * One call of the SDK. It rejects with a `SluiceError`, and after an abort at once with
 * `signal.reason`, whatever the SDK waits for: a credential need not listen to signals. `send` hands
 * the signal that it gets to the SDK; what still comes after an abort or a failure is destroyed by it.
 */
export async function request<T>(
  { who, signal, timeoutMs = 60_000 }: Call,
  send: (abortSignal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const connection = new AbortController();
  const expired = (): SluiceError =>
    new SluiceError("timeout", `${who}: no answer came for ${timeoutMs} ms`);
  try {
    return await within(send(connection.signal), {
      clock: systemClock,
      timeoutMs,
      expired,
      signal,
    });
  } catch (error) {
    connection.abort();
    signal?.throwIfAborted();
    throw toSluiceError(error, who);
  }
}
