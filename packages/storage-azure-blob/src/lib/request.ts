import { toSluiceError } from "./azure-error.ts";

/**
 * One call of the SDK. It rejects with a `SluiceError`, and after an abort at once with
 * `signal.reason`, whatever the SDK waits for: a credential need not listen to signals. `send` hands
 * the signal that it gets to the SDK; what still comes after an abort or a failure is destroyed by it.
 */
export async function request<T>(
  who: string,
  signal: AbortSignal | undefined,
  send: (abortSignal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const connection = new AbortController();
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      connection.abort();
      reject(signal?.reason);
    };
    const stop = (): void => signal?.removeEventListener("abort", onAbort);
    signal?.addEventListener("abort", onAbort, { once: true });
    send(connection.signal).then(
      (value) => {
        stop();
        resolve(value);
        return undefined;
      },
      (error: unknown) => {
        stop();
        connection.abort();
        reject(toSluiceError(error, who));
      },
    );
  });
}
