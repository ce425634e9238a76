import { isInTime, onAbort } from "@sluice/core/async";
import { uploadError } from "./upload-error.ts";

/** An end that work is told of. */
export interface Ending {
  readonly isOver: boolean;
  /**
   * Works with a signal that aborts at the end, or with `signal`. It is the work's own: in Workers no request may use the
   * signals that another one made.
   */
  during<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

/** The requests that an endpoint is answering, until it is closed. */
export interface OpenRequests {
  /** The endpoint is about to be closed: what can go on at another process ends. */
  readonly leaving: Ending;
  /** The endpoint is closed. */
  readonly closing: Ending;
  /** Counts a request until it is answered. */
  track<T>(answer: Promise<T>): Promise<T>;
  /** Ends all of them: those in steps at once, the others after `deadlineMs`. Resolves when they are answered. */
  close(deadlineMs: number, signal?: AbortSignal): Promise<void>;
}

/** Makes the list of one endpoint. */
export function createOpenRequests(): OpenRequests {
  const leaving = createEnding();
  const closing = createEnding();
  const open = new Set<Promise<unknown>>();
  return {
    leaving,
    closing,
    track(answer) {
      const forget = (): void => void open.delete(answer);
      open.add(answer);
      answer.then(forget, forget);
      return answer;
    },
    async close(deadlineMs, signal) {
      leaving.end(uploadError("interrupted", "the endpoint is about to be closed"));
      if (deadlineMs > 0) await isInTime(Promise.allSettled(open), deadlineMs, signal);
      closing.end(new Error("uploads: the endpoint is closed"));
      await Promise.allSettled(open);
    },
  };
}

function createEnding(): Ending & { readonly end: (reason: Error) => void } {
  const working = new Set<AbortController>();
  let over: Error | undefined;
  return {
    get isOver() {
      return over !== undefined;
    },
    async during(signal, work) {
      const own = new AbortController();
      const unlisten = onAbort(signal, (reason) => own.abort(reason));
      if (over) own.abort(over);
      working.add(own);
      try {
        return await work(own.signal);
      } finally {
        working.delete(own);
        unlisten();
      }
    },
    end(reason) {
      over ??= reason;
      for (const own of working) own.abort(over);
    },
  };
}
