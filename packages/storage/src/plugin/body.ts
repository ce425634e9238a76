import { onAbort } from "@sluice/core/async";

/** Steps of a body made by {@link createBody}. */
export interface BodySteps {
  /** The next chunk, or `undefined` at the end. Called when the reader wants one, never ahead, never twice at once. */
  next(): Promise<Uint8Array | undefined>;
  /**
   * Frees what the body holds. Called exactly once: after the end, an error, a cancel or an
   * abort; in the last two cases possibly while a `next` is still under way.
   */
  release?(reason?: unknown): void | Promise<void>;
  /** Ends the body with `signal.reason`, also while it is not read. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A body that is pulled: nothing is read before the reader asks and nothing is buffered ahead,
 * whatever the size. An abort errors it at once with `signal.reason`.
 */
export function createBody(steps: BodySteps): ReadableStream<Uint8Array> {
  let released = false;
  let controller: ReadableStreamDefaultController<Uint8Array>;
  let removeListener: (() => void) | undefined;

  const release = async (reason?: unknown): Promise<void> => {
    if (released) return;
    released = true;
    removeListener?.();
    await steps.release?.(reason);
  };
  const fail = (reason: unknown): void => {
    if (released) return;
    controller.error(reason);
    // the reader gets the first error; a failed release would tell it nothing
    release(reason).catch(() => {});
  };

  return new ReadableStream<Uint8Array>(
    {
      start(given) {
        controller = given;
        removeListener = onAbort(steps.signal, fail);
      },
      async pull() {
        try {
          let chunk = await steps.next();
          while (chunk?.byteLength === 0) chunk = await steps.next();
          if (released) return;
          if (chunk !== undefined) return controller.enqueue(chunk);
          await release().catch(() => {});
          controller.close();
        } catch (error) {
          fail(error);
        }
      },
      cancel: release,
    },
    { highWaterMark: 0 },
  );
}
