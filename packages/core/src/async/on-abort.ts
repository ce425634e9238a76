type AbortListener = (reason: unknown) => void;

/**
 * Calls `listener` once with the reason when `signal` aborts, at once when it has. The returned function removes the
 * listener; without a signal it does nothing.
 */
export function onAbort(signal: AbortSignal | undefined, listener: AbortListener): () => void {
  if (!signal) return () => {};
  if (signal.aborted) {
    listener(signal.reason);
    return () => {};
  }
  let waiting = waitingFor.get(signal);
  if (!waiting) waitingFor.set(signal, (waiting = new AbortListeners(signal)));
  return waiting.add(listener);
}

/** Of each signal. Node prints a warning on the user's terminal when a signal has more than ten listeners. */
const waitingFor = new WeakMap<AbortSignal, AbortListeners>();

/** Everything that waits for a signal, behind one listener of the platform while there is any. */
class AbortListeners {
  readonly #signal: AbortSignal;
  readonly #calls = new Set<AbortListener>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(listener: AbortListener): () => void {
    // the same function may wait twice
    const call: AbortListener = (reason) => listener(reason);
    if (this.#calls.size === 0) this.#signal.addEventListener("abort", this.#onAbort);
    this.#calls.add(call);
    return () => {
      if (this.#calls.delete(call)) this.#stopWhenEmpty();
    };
  }

  readonly #onAbort = (): void => {
    for (const call of this.#calls)
      try {
        call(this.#signal.reason);
      } catch (error) {
        // as the platform does: the others are called all the same
        queueMicrotask(() => {
          throw error;
        });
      }
    this.#calls.clear();
    this.#stopWhenEmpty();
  };

  #stopWhenEmpty(): void {
    if (this.#calls.size === 0) this.#signal.removeEventListener("abort", this.#onAbort);
  }
}
