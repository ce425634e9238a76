import { SluiceError } from "@sluice/core";
import { within } from "@sluice/core/internal";

/** One call of a service, as its errors name it and as it ends. */
export interface ServiceCall {
  /** Start of messages: `s3: open "a.txt"`. */
  readonly operation: string;
  /** Ends the call; it then rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for the response, in milliseconds. Default: 60 s. */
  readonly timeoutMs?: number | undefined;
}

/** Settings of {@link callService}. */
export interface ServiceCallOptions<T> {
  /** Turns an error of the SDK into a `SluiceError`. Default: the error itself. */
  readonly toError?: (error: unknown, operation: string) => unknown;
  /** Frees a response that comes after the end of the wait. */
  readonly discard?: ((late: T) => void) | undefined;
}

/**
 * Calls a service once, with a deadline (`timeout`). An abort rejects at once with `signal.reason`, whatever the SDK
 * awaits: credentials and adapters need not listen to signals. `send` gets a signal that aborts only if the call fails:
 * the body of a successful response is still being read after the call.
 */
export async function callService<T>(
  { operation, signal, timeoutMs = 60_000 }: ServiceCall,
  send: (ended: AbortSignal) => Promise<T>,
  { toError = (error) => error, discard }: ServiceCallOptions<T> = {},
): Promise<T> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const expired = (): SluiceError =>
    new SluiceError("timeout", `${operation}: no answer came for ${timeoutMs} ms`);
  try {
    return await within(send(controller.signal), { timeoutMs, expired, signal }, discard);
  } catch (error) {
    controller.abort();
    signal?.throwIfAborted();
    throw toError(error, operation);
  }
}
