import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import type { ObjectInfo, ObjectWriter } from "../contract/backend.ts";

/** The calls of one service for one writer. {@link createWriter} calls one method at a time. */
export interface WriteDriver {
  /** Takes the next chunk. The driver owns its bytes from now on. */
  append(chunk: Uint8Array): Promise<void>;
  /** Makes the object of the appended chunks: `written` bytes, as many as were declared. */
  publish(written: number): Promise<ObjectInfo>;
  /**
   * Removes leftovers of the write and frees its memory. It is called once: after `publish`, or
   * when the writer ends without an object and the call in progress has settled.
   */
  release(): Promise<void>;
}

/** Settings of {@link createWriter}. */
export interface WriterOptions {
  /** Start of messages: `fs: write "a.txt"`. */
  readonly operation: string;
  /** Bytes that were declared; `undefined` when none were. */
  readonly size?: number | undefined;
  /** Ends the writer with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /** Turns an error of the driver into a `SluiceError`. Default: the error itself. */
  readonly toError?: (error: unknown, operation: string) => unknown;
}

/**
 * Creates the writer of an object over the calls of a service: `open` makes the driver, which appends, publishes and
 * releases. The writer owns the life cycle: open, committing, ended. `open` gets a signal that aborts when the writer
 * ends without an object, so that requests in progress end at once.
 *
 * - `write` and `commit` throw `TypeError` after the end, and `signal.reason` after an abort (write-finished,
 *   write-aborted).
 * - Another number of bytes than `size` is `invalid_argument`; one too many is refused when it comes (write-size).
 * - A failed step ends the writer; its error is thrown once everything is released. A failed release changes no result.
 * - An abort rejects without waiting for the release; `abort` waits for it, and for a commit in progress.
 */
export function createWriter(
  open: (ended: AbortSignal) => WriteDriver,
  { operation, size, signal, toError = (error) => error }: WriterOptions,
): ObjectWriter {
  const controller = new AbortController();
  const driver = open(controller.signal);
  let written = 0;
  let underWay: Promise<unknown> = Promise.resolve();
  let committing: Promise<ObjectInfo> | undefined;
  let released: Promise<void> | undefined;

  const ensureOpen = (step: string): void => {
    signal?.throwIfAborted();
    if (committing || released)
      throw new TypeError(`${operation}: ${step} after the writer was finished`);
  };
  const ensureSize = (isWrong: boolean): void => {
    if (isWrong)
      throw new SluiceError(
        "invalid_argument",
        `${operation}: ${written} bytes came, ${size} were declared`,
      );
  };
  const run = <T>(work: Promise<T>): Promise<T> => {
    underWay = work;
    return work;
  };
  const release = (): Promise<void> =>
    (released ??= underWay
      .catch(() => {})
      .then(() => driver.release())
      .finally(() => removeListener()));
  const fail = async (cause: unknown): Promise<never> => {
    const wasEnded = controller.signal.aborted;
    controller.abort(cause);
    const releasing = release().catch(() => {});
    // an abort rejects at once, however long the release takes
    signal?.throwIfAborted();
    await releasing;
    throw wasEnded ? controller.signal.reason : toError(cause, operation);
  };
  const publish = async (): Promise<ObjectInfo> => {
    try {
      ensureSize(size !== undefined && size !== written);
      const info = await run(driver.publish(written));
      await release().catch(() => {});
      return info;
    } catch (error) {
      return fail(error);
    }
  };
  const abort = async (
    reason: unknown = new SluiceError("interrupted", `${operation}: the writer was aborted`),
  ): Promise<void> => {
    if (committing) await committing.catch(() => {});
    controller.abort(reason);
    await release().catch(() => {});
  };
  const removeListener = onAbort(signal, (reason) => {
    controller.abort(reason);
    // a commit in progress releases by itself
    if (!committing) release().catch(() => {});
  });

  return {
    async write(chunk) {
      ensureOpen("write");
      written += chunk.byteLength;
      try {
        ensureSize(size !== undefined && written > size);
        await run(driver.append(chunk));
        controller.signal.throwIfAborted();
      } catch (error) {
        await fail(error);
      }
    },
    async commit() {
      ensureOpen("commit");
      committing = publish();
      return committing;
    },
    abort,
    [Symbol.asyncDispose]: () => abort(),
  };
}
