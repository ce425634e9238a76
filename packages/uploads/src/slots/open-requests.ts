import { within } from "@sluice/core/async";
import { uploadError } from "./upload-error.ts";

/** The requests that an endpoint is answering, until it is closed. */
export interface OpenRequests {
  /** Aborts when the endpoint is about to be closed: what can go on at another process ends. */
  readonly leaving: AbortSignal;
  /** Aborts when the endpoint is closed. */
  readonly closing: AbortSignal;
  /** Counts a request until it is answered. */
  track<T>(answer: Promise<T>): Promise<T>;
  /** Ends all of them: those in steps at once, the others at the deadline. Resolves when they are answered. */
  close(options: {
    readonly deadlineMs: number;
    readonly signal?: AbortSignal | undefined;
  }): Promise<void>;
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
    async close({ deadlineMs, signal }) {
      leaving.abort(uploadError("interrupted", "the endpoint is about to be closed"));
      if (deadlineMs > 0)
        await within(Promise.allSettled(open), { timeoutMs: deadlineMs, expired, signal }).catch(
          () => {},
        );
      closing.abort(new Error("uploads: the endpoint is closed"));
      await Promise.allSettled(open);
    },
  };
}

function expired(): Error {
  return uploadError("timeout", "requests are still open");
}
