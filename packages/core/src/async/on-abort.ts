type AbortListener = (reason: unknown) => void;

/** The callbacks that wait for a signal, and the one platform listener that calls them. */
interface Waiting {
  readonly calls: Set<AbortListener>;
  readonly listener: () => void;
}

/** Node prints a warning on the user's terminal when a signal has more than ten listeners. */
const waitingFor = new WeakMap<AbortSignal, Waiting>();

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
  const group = waitingFor.get(signal) ?? listenTo(signal);
  // the same function may wait twice
  const call: AbortListener = (reason) => listener(reason);
  group.calls.add(call);
  return () => {
    if (!group.calls.delete(call) || group.calls.size > 0) return;
    signal.removeEventListener("abort", group.listener);
    waitingFor.delete(signal);
  };
}

function listenTo(signal: AbortSignal): Waiting {
  const calls = new Set<AbortListener>();
  const listener = (): void => {
    for (const call of calls)
      try {
        call(signal.reason);
      } catch (error) {
        // as the platform does: the others are called all the same
        queueMicrotask(() => {
          throw error;
        });
      }
  };
  const group = { calls, listener };
  signal.addEventListener("abort", listener, { once: true });
  waitingFor.set(signal, group);
  return group;
}
