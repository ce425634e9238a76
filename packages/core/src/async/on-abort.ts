/**
 * Calls `listener` once with the reason when `signal` aborts, at once when it has. The returned function removes the
 * listener; without a signal it does nothing.
 */
export function onAbort(
  signal: AbortSignal | undefined,
  listener: (reason: unknown) => void,
): () => void {
  if (!signal) return () => {};
  if (signal.aborted) {
    listener(signal.reason);
    return () => {};
  }
  const call = (): void => listener(signal.reason);
  signal.addEventListener("abort", call, { once: true });
  return () => signal.removeEventListener("abort", call);
}
