import { type ByteFlow, SluiceError, type WriteChunk } from "@sluice/core";
import { createFlowBody, discardSource, flowOf } from "@sluice/core/internal";
import {
  type OpenedObject,
  type OpenOptions,
  type StorageBackend,
  withKept,
} from "../contract/backend.ts";
import { quoteKey } from "../contract/key.ts";
import { withBody } from "../contract/opened.ts";
import { wrapBackend } from "./wrap.ts";

/** Bytes that must come before another round of resumes may begin. */
const progressBytes = 1024 * 1024;

/** Settings of {@link withResumedReads}. */
export interface ResumableOptions {
  /** Resumes in a row that brought less than 1 MiB together before the body fails. Default: 3. */
  readonly maxResumes?: number;
}

/**
 * Continues a body that broke with a `retryable` error: the object is opened again with `ifMatch` and a range
 * that starts where the bytes stopped. It needs an etag and never splices two versions: an object that changed
 * by then ends the body with `precondition_failed`, and so does a response that does not say by itself that it
 * is of the same version. A `file` face is passed on, since local files do not break, and an object that has
 * `bytes` is as it was.
 */
export function withResumedReads(
  backend: StorageBackend,
  options: ResumableOptions = {},
): StorageBackend {
  const { maxResumes: resumes = 3 } = options;
  return wrapBackend(backend, {
    open: (open) => {
      const resumed: StorageBackend["open"] = async (key, openOptions = {}) => {
        const opened = await open(key, openOptions);
        const { etag } = opened.info;
        if (etag === undefined || opened.bytes) return opened;
        const operation = `${backend.name}: open ${quoteKey(key)}`;
        const terms = { operation, etag, resumes, signal: openOptions.signal };
        return withBody(opened, () =>
          createFlowBody(resumedFlow(opened, terms, (again) => open(key, again))),
        );
      };
      return withKept(resumed, open.inMemory);
    },
  });
}

interface Terms {
  /** How messages start. */
  readonly operation: string;
  readonly etag: string;
  readonly resumes: number;
  readonly signal: AbortSignal | undefined;
}

function resumedFlow(
  opened: OpenedObject,
  { operation, etag, resumes, signal }: Terms,
  open: (options: OpenOptions) => Promise<OpenedObject>,
): ByteFlow {
  const cancelled = new AbortController();
  const end = opened.range?.end ?? opened.info.size;
  let position = opened.range?.start ?? 0;
  let flow = flowOf(opened.body);
  let resumesLeft = resumes;
  let progressAt = position + progressBytes;

  const reopen = async (cause: unknown): Promise<ByteFlow> => {
    const again = await open({
      range: end === undefined ? { start: position } : { start: position, end },
      ifMatch: etag,
      signal: signal ? AbortSignal.any([signal, cancelled.signal]) : cancelled.signal,
    });
    const { info, range, validator } = again;
    const fits =
      info.etag === etag &&
      info.size === opened.info.size &&
      validator === opened.validator &&
      range?.start === position &&
      (end ?? range.end) === range.end;
    if (!fits || cancelled.signal.aborted) {
      await discardSource(again);
      throw new SluiceError("precondition_failed", `${operation}: another version came`, { cause });
    }
    return flowOf(again.body);
  };

  return {
    async pump(write, lending) {
      let isRefused = false;
      const count: WriteChunk = (chunk, release) => {
        position += chunk.byteLength;
        if (position >= progressAt) {
          progressAt = position + progressBytes;
          resumesLeft = resumes;
        }
        try {
          return write(chunk, release);
        } catch (error) {
          isRefused = true;
          throw error;
        }
      };
      // of a broken body, chunks may still be lent: the next one gets no memory to refill
      for (let lent = lending; ; lent = undefined) {
        try {
          return await flow.pump(count, lent);
        } catch (error) {
          const isResumable = SluiceError.is(error) && error.retryable && !isRefused;
          const hasEnded = signal?.aborted || cancelled.signal.aborted;
          if (!isResumable || hasEnded || resumesLeft === 0 || position === end) throw error;
          resumesLeft -= 1;
          flow = await reopen(error);
        }
      }
    },
    cancel(reason) {
      cancelled.abort(reason);
      flow.cancel(reason);
    },
  };
}
