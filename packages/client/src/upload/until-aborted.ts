/** Waits for what `ask` gives, no longer than until `signal` fires: then it rejects with its reason. */
export function untilAborted<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    void ask()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", abort));
  });
}
