import { SluiceError } from "@sluice/core";
import { sleep, systemClock, within } from "@sluice/core/internal";
import type { UploadStore } from "@sluice/state";
import { uploadError } from "../slots/upload-error.ts";
import { keepRenewed, leaseOf } from "./lease.ts";

/** The right of one request to write a file. */
export interface LockLease {
  /** Aborts when another request wants the file, in this process or another, or the store does not tell whether one does. */
  readonly signal: AbortSignal;
  /** Throws `interrupted` when another request may be writing by now. */
  ensureOurs(): void;
  /** Lets the next request have the file. Never rejects. */
  release(): Promise<void>;
}

/** Longest time that a process that crashed or hangs blocks a file. */
const leaseMs = 10_000;
/** How soon a request learns that another process wants its file. */
const renewEveryMs = 500;
/** Time that must be left to keep what has come. */
const keepingMs = 4_000;
/** How often the store is asked whether another process has released the file. */
const askEveryMs = 100;

/**
 * Lets one request at a time write a file, in all processes of a store: the newest, because its sender has given up the
 * older ones.
 */
export class WriteLock {
  readonly #store: UploadStore;
  readonly #onError: (error: unknown) => void;
  /** By file: the request of this process that has it or waits for it. A newer one here asks it to leave directly. */
  readonly #current = new Map<
    string,
    { readonly askToLeave: () => void; readonly ended: Promise<void> }
  >();

  constructor(store: UploadStore, onError: (error: unknown) => void) {
    this.#store = store;
    this.#onError = onError;
  }

  /**
   * Ends the request that has the file, waits until it is over, and takes the file. Rejects with `interrupted` if a
   * newer request came, with `unavailable` when the store does not answer or the request before does not end within
   * 10 s, or with `signal.reason`.
   */
  async acquire(fileId: string, signal: AbortSignal): Promise<LockLease> {
    const current = this.#current;
    // no await between the last check and `current.set`: two requests must not both get in
    for (let holder = current.get(fileId); holder; holder = current.get(fileId)) {
      holder.askToLeave();
      await within(holder.ended, {
        clock: systemClock,
        timeoutMs: leaseMs,
        expired: () =>
          uploadError("unavailable", "the request before this one does not end", {
            retryAfterMs: 1_000,
          }),
        signal,
      });
    }
    const stop = new AbortController();
    let askToLeave!: () => void;
    // in Workers a request must not abort a signal of another one: it resolves a promise that this one acts on
    const leaveRequest = new Promise<void>((resolve) => void (askToLeave = resolve));
    void leaveRequest.then(() => stop.abort(overtaken()));
    let finish!: () => void;
    const ended = new Promise<void>((resolve) => void (finish = resolve));
    current.set(fileId, { askToLeave, ended });
    const leave = (): void => {
      current.delete(fileId);
      finish();
    };
    const lease = await this.#claim(fileId, AbortSignal.any([signal, stop.signal])).catch(
      (error: unknown) => {
        leave();
        throw error;
      },
    );
    const endRenewal = this.#keepHeld(fileId, lease, stop);
    return {
      signal: stop.signal,
      ensureOurs() {
        if (Date.now() >= lease.until) throw overtaken();
      },
      release: async () => {
        // a renewal that arrives after the release changes nothing
        void endRenewal();
        await this.#store.release(fileId, lease.writer).catch(this.#onError);
        leave();
      },
    };
  }

  async #claim(fileId: string, signal: AbortSignal): Promise<Held> {
    const store = this.#store;
    let lease = leaseOf(leaseMs);
    const { writer, outcome: first } = await store.claim(fileId, lease);
    try {
      for (let outcome: string = first; outcome !== "held";) {
        if (outcome !== "waiting") throw overtaken();
        await sleep(askEveryMs, signal);
        lease = leaseOf(leaseMs);
        outcome = await store.renew(fileId, writer, lease);
      }
      signal.throwIfAborted();
      return { writer, until: lease.until };
    } catch (error) {
      await store.release(fileId, writer).catch(this.#onError);
      throw error;
    }
  }

  /** Renews the lease, and aborts `stop` when another request wants the file or the store does not tell. */
  #keepHeld(fileId: string, held: Held, stop: AbortController): () => Promise<void> {
    return keepRenewed(
      async () => {
        const lease = leaseOf(leaseMs);
        const outcome = await this.#store.renew(fileId, held.writer, lease);
        if (outcome === "held") held.until = lease.until;
        else stop.abort(overtaken());
        if (outcome === "lost") held.until = 0;
      },
      {
        everyMs: renewEveryMs,
        onError: (error) => {
          this.#onError(error);
          if (Date.now() >= held.until - keepingMs) stop.abort(error);
        },
      },
    );
  }
}

interface Held {
  readonly writer: number;
  /** Unix milliseconds. */
  until: number;
}

function overtaken(): SluiceError {
  return uploadError("interrupted", "a newer request has this file now");
}
