import { isEventStream, Notifier, onAbort, pullStream } from "@sluice/core/internal";

/** Bytes that may wait for the host before the server is held back. */
const maxWaitingBytes = 2 ** 20;

/** Events on their way to a host. */
export interface PacedEvents {
  readonly response: Response;
  /** Resolves when the host has taken what waits, or has gone; undefined when little waits. */
  ready(): Promise<void> | undefined;
}

/**
 * Counts the events that a host has not read: what writes them, as the SDK's transports do, does not wait. `onEnd` is
 * called once, when the body was read, cancelled or broken, or `signal` aborts; at once where there are no events.
 */
export function pacedEvents(
  response: Response,
  onEnd: () => void,
  signal?: AbortSignal,
): PacedEvents {
  const { body, headers, status } = response;
  if (!body || !isEventStream(headers)) {
    onEnd();
    return { response, ready: () => undefined };
  }
  const reader = body.getReader();
  const queue: Uint8Array[] = [];
  const arrived = new Notifier();
  const takeNotifier = new Notifier();
  let waitingBytes = 0;
  let isEnded = false;
  let removeListener: (() => void) | undefined;
  /** The writer has ended, with an error where it broke. */
  let over: { readonly error?: unknown } | undefined;

  async function fill(): Promise<void> {
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        queue.push(read.value);
        waitingBytes += read.value.length;
        arrived.notify();
      }
      over = {};
    } catch (error) {
      over = { error };
    }
    arrived.notify();
  }

  async function take(): Promise<Uint8Array | undefined> {
    if (queue.length === 0 && !over) {
      await arrived.wait();
      return take();
    }
    const chunk = queue.shift();
    if (!chunk && over && "error" in over) throw over.error;
    waitingBytes -= chunk?.length ?? 0;
    takeNotifier.notify();
    return chunk;
  }

  function end(reason?: unknown): Promise<void> {
    const wasEnded = isEnded;
    isEnded = true;
    takeNotifier.notify();
    if (!wasEnded) {
      removeListener?.();
      onEnd();
    }
    return reader.cancel(reason).catch(() => {});
  }

  function ready(): Promise<void> | undefined {
    return waitingBytes > maxWaitingBytes && !isEnded ? takeNotifier.wait().then(ready) : undefined;
  }

  removeListener = onAbort(signal, (reason) => void end(reason));
  void fill();
  return { response: new Response(pullStream(take, end), { status, headers }), ready };
}
