import { SluiceError } from "@sluice/core";
import { sleep, systemClock, within } from "@sluice/core/async";
import type { UploadStore } from "@sluice/state";
import { uploadError } from "../slots/upload-error.ts";
import { keepRenewed, leaseOf } from "./leases.ts";

/** The right of one request to write a file. */
export interface LockLease {
  /** Aborts when another request wants the file, in this process or another, or the store does not tell whether one does. */
  readonly signal: AbortSignal;
  /** Throws `interrupted` when another request may be writing by now. */
  ensureOurs(): void;
  /** Lets the next request have the file. Never rejects. */
  release(): Promise<void>;
}

/** Lets one request at a time write a file: the newest, because its sender has given up the older ones. */
export interface WriteLock {
  /**
   * Ends the request that has the file, waits until it is over, and takes the file. Rejects with `interrupted` when
   * a newer request came meanwhile, with `unavailable` when the store does not answer or the request before does not
   * end within 10 s, or with `signal.reason`.
   */
  acquire(fileId: string, signal: AbortSignal): Promise<LockLease>;
}

/** Longest that a process which died, or hangs, keeps a file from others. */
const leaseMs = 10_000;
/** How soon a request learns that another process wants its file. */
const renewEveryMs = 500;
/** Time that must be left to keep what has come. */
const keepingMs = 4_000;
/** How often the store is asked whether another process is through. */
const askEveryMs = 100;

/** Makes the lock of this process, which it shares with all others of the same store. */
export function createWriteLock(store: UploadStore, onError: (error: unknown) => void): WriteLock {
  /** Requests of this process: they are asked without the store. */
  const current = new Map<string, { readonly want: () => void; readonly over: Promise<void> }>();

  async function claim(fileId: string, signal: AbortSignal): Promise<Held> {
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
      await store.release(fileId, writer).catch(onError);
      throw error;
    }
  }

  return {
    async acquire(fileId, signal) {
      for (let holder = current.get(fileId); holder; holder = current.get(fileId)) {
        holder.want();
        await within(holder.over, {
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
      let want!: () => void;
      // in Workers no request may abort what another one made; each goes on with its own promises
      const wanted = new Promise<void>((resolve) => void (want = resolve));
      void wanted.then(() => stop.abort(overtaken()));
      let finish!: () => void;
      const over = new Promise<void>((resolve) => void (finish = resolve));
      current.set(fileId, { want, over });
      const leave = (): void => {
        current.delete(fileId);
        finish();
      };
      const held = await claim(fileId, AbortSignal.any([signal, stop.signal])).catch(
        (error: unknown) => {
          leave();
          throw error;
        },
      );
      const endRenewal = keepRenewed(
        async () => {
          const lease = leaseOf(leaseMs);
          const outcome = await store.renew(fileId, held.writer, lease);
          if (outcome === "held") held.until = lease.until;
          else stop.abort(overtaken());
          if (outcome === "lost") held.until = 0;
        },
        {
          everyMs: renewEveryMs,
          onError(error) {
            onError(error);
            if (Date.now() >= held.until - keepingMs) stop.abort(error);
          },
        },
      );
      return {
        signal: stop.signal,
        ensureOurs() {
          if (Date.now() >= held.until) throw overtaken();
        },
        async release() {
          // one that comes after the release changes nothing
          void endRenewal();
          await store.release(fileId, held.writer).catch(onError);
          leave();
        },
      };
    },
  };
}

interface Held {
  readonly writer: number;
  /** Unix milliseconds. */
  until: number;
}

function overtaken(): SluiceError {
  return uploadError("interrupted", "another request goes on with this file");
}
