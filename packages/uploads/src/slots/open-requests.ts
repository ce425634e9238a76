import { isInTime } from "@sluice/core/async";
import { uploadError } from "./upload-error.ts";

/** The requests that an endpoint is answering, until it is closed. */
export interface OpenRequests {
  /** Aborts when the endpoint is about to be closed: what can go on at another process ends. */
  readonly leaving: AbortSignal;
  /** Aborts when the endpoint is closed. */
  readonly closing: AbortSignal;
  /** Counts a request until it is answered. */
  track<T>(answer: Promise<T>): Promise<T>;
  /** Ends all of them: those in steps at once, the others after `deadlineMs`. Resolves when they are answered. */
  close(deadlineMs: number, signal?: AbortSignal): Promise<void>;
}

/** Makes the list of one endpoint. */
export function createOpenRequests(): OpenRequests {
  const leaving = new AbortController();
  const closing = new AbortController();
  const open = new Set<Promise<unknown>>();
  return {
    leaving: leaving.signal,
    closing: closing.signal,
    track(answer) {
      const forget = (): void => void open.delete(answer);
      open.add(answer);
      answer.then(forget, forget);
      return answer;
    },
    async close(deadlineMs, signal) {
      leaving.abort(uploadError("interrupted", "the endpoint is about to be closed"));
      if (deadlineMs > 0) await isInTime(Promise.allSettled(open), deadlineMs, signal);
      closing.abort(new Error("uploads: the endpoint is closed"));
      await Promise.allSettled(open);
    },
  };
}
