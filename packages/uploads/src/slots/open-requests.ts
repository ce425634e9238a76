import { isInTime, onAbort } from "@sluice/core/internal";
import { uploadError } from "./upload-error.ts";

/** A point in the shutdown of an endpoint. Work that `runUntil` runs is aborted when it comes. */
export class ShutdownStage {
  readonly #working = new Set<AbortController>();
  #over: Error | undefined;

  get isOver(): boolean {
    return this.#over !== undefined;
  }

  /**
   * Runs `work` with a new signal that aborts at this stage, or with `signal`. A new one, because in Workers no request
   * may use a signal that another one made.
   */
  async runUntil<T>(
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ownController = new AbortController();
    const unlisten = onAbort(signal, (reason) => ownController.abort(reason));
    if (this.#over) ownController.abort(this.#over);
    this.#working.add(ownController);
    try {
      return await work(ownController.signal);
    } finally {
      this.#working.delete(ownController);
      unlisten();
    }
  }

  end(reason: Error): void {
    this.#over ??= reason;
    for (const own of this.#working) own.abort(this.#over);
  }
}

/** The requests that an endpoint is answering, until it is closed. */
export class OpenRequests {
  /** The endpoint is about to be closed: work that another process can resume ends. */
  readonly leaving: ShutdownStage = new ShutdownStage();
  /** The endpoint is closed. */
  readonly closing: ShutdownStage = new ShutdownStage();
  readonly #open = new Set<Promise<unknown>>();

  /** Counts a request until it is answered. */
  track<T>(answer: Promise<T>): Promise<T> {
    const forget = (): void => void this.#open.delete(answer);
    this.#open.add(answer);
    answer.then(forget, forget);
    return answer;
  }

  /** Ends all of them: those in steps at once, the others after `deadlineMs`. Resolves when they are answered. */
  async close(deadlineMs: number, signal?: AbortSignal): Promise<void> {
    this.leaving.end(uploadError("interrupted", "the endpoint is about to be closed"));
    if (deadlineMs > 0) await isInTime(Promise.allSettled(this.#open), deadlineMs, signal);
    this.closing.end(new Error("uploads: the endpoint is closed"));
    await Promise.allSettled(this.#open);
  }
}
