import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import type { ObjectInfo, StepEnd, StepWriter } from "../contract/backend.ts";

/** The calls of one service for one step of an object. {@link createStepWriter} calls one method at a time. */
export interface StepDriver {
  /** Takes the next chunk. The driver owns its bytes from now on. */
  append(chunk: Uint8Array): Promise<void>;
  /** Keeps what was appended, as far as the service can. */
  keep(): Promise<StepEnd>;
  publish(): Promise<ObjectInfo>;
  /** Removes what all steps have kept. It may come after a failure, and after `release`. */
  discard(): Promise<void>;
  /** Frees what this step holds, and removes nothing. It is called once, when the call in progress has settled. */
  release(): Promise<void>;
}

/** Settings of {@link createStepWriter}. */
export interface StepWriterOptions {
  /** Start of messages: `s3: write in steps "a.txt"`. */
  readonly operation: string;
  /** Names the object to the next step. */
  readonly id: string;
  /** Bytes that earlier steps have kept. */
  readonly offset: number;
  /** Ends the step with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /** Turns an error of the driver into a `SluiceError`. Default: the error itself. */
  readonly toError?: (error: unknown, operation: string) => unknown;
}

/**
 * Creates the writer of one step over the calls of a service. `open` makes the driver; its signal aborts when the
 * step fails or is aborted, so that requests in progress end at once.
 *
 * - `write`, `suspend` and `commit` throw `TypeError` after the end, and `signal.reason` after an abort (steps-ended,
 *   steps-aborted).
 * - A failed call ends the step; its error is thrown once everything is released. A failed release changes no result.
 * - An abort of the signal leaves the kept bytes, as the end of a process does; `abort` removes them.
 */
export function createStepWriter(
  open: (ended: AbortSignal) => StepDriver,
  { operation, id, offset, signal, toError = (error) => error }: StepWriterOptions,
): StepWriter {
  const controller = new AbortController();
  const driver = open(controller.signal);
  let underWay: Promise<unknown> = Promise.resolve();
  let end: "suspended" | "committed" | "failed" | undefined;
  let released: Promise<void> | undefined;
  let discarded: Promise<void> | undefined;

  const ensureOpen = (call: string): void => {
    signal?.throwIfAborted();
    if (end) throw new TypeError(`${operation}: ${call} after the end of the step`);
  };
  const release = (): Promise<void> =>
    (released ??= underWay
      .catch(() => {})
      .then(() => driver.release())
      .finally(() => removeListener()));
  const fail = async (cause: unknown): Promise<never> => {
    const wasEnded = controller.signal.aborted;
    end = "failed";
    controller.abort(cause);
    const releasing = release().catch(() => {});
    signal?.throwIfAborted();
    await releasing;
    throw wasEnded ? controller.signal.reason : toError(cause, operation);
  };
  const run = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      const running = work();
      underWay = running;
      const result = await running;
      controller.signal.throwIfAborted();
      return result;
    } catch (error) {
      return fail(error);
    }
  };
  const finish = async <T>(how: "suspended" | "committed", work: () => Promise<T>): Promise<T> => {
    end = how;
    const result = await run(work);
    await release().catch(() => {});
    return result;
  };
  const removeListener = onAbort(signal, (reason) => {
    controller.abort(reason);
    // a last call in progress releases by itself
    if (!end) release().catch(() => {});
  });

  return {
    id,
    offset,
    async write(chunk) {
      ensureOpen("write");
      await run(() => driver.append(chunk));
    },
    async suspend() {
      ensureOpen("suspend");
      return finish("suspended", () => driver.keep());
    },
    async commit() {
      ensureOpen("commit");
      return finish("committed", () => driver.publish());
    },
    async abort() {
      if (end === "suspended" || end === "committed") return;
      end = "failed";
      controller.abort(new SluiceError("interrupted", `${operation}: the step was aborted`));
      await release().catch(() => {});
      discarded ??= driver.discard();
      try {
        await discarded;
      } catch (error) {
        discarded = undefined;
        throw toError(error, operation);
      }
    },
  };
}
