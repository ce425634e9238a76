import type { UploadStore } from "@sluice/state";
import { backgroundClock } from "@sluice/core/async";
import { keepProlonged, leaseOf } from "../slots/leases.ts";
import { newId } from "../slots/random-id.ts";

/** Sweeps, in one process at a time of those that share a store. */
export interface Sweeper {
  /** Sweeps now, unless another process does so. */
  sweep(signal: AbortSignal): Promise<void>;
  /** Ends the timer, waits for the sweep under way, and leaves the place to another process. */
  close(): Promise<void>;
}

/** The one place there is. Owners are hexadecimal or `anonymous`. */
const account = "sweep";

/**
 * Runs `work` at once and on an interval. The process that swept last goes on with it, and another one when it has
 * missed a turn.
 */
export function startSweeper(
  work: (signal: AbortSignal) => Promise<void>,
  {
    store,
    everyMs,
    closing,
    before,
    onError,
  }: {
    readonly store: UploadStore;
    readonly everyMs: number;
    /** Runs in each process before each sweep, whichever process sweeps. */
    readonly before: () => void;
    /** Ends the sweeps of the timer. */
    readonly closing: AbortSignal;
    readonly onError: (error: unknown) => void;
  },
): Sweeper {
  const place = newId();
  const enter = (): Promise<boolean> =>
    store.enter(account, place, { ...leaseOf(2 * everyMs), places: 1 });

  async function sweepInTurn(signal: AbortSignal): Promise<void> {
    before();
    if (!(await enter())) return;
    const stop = keepProlonged(enter, { everyMs, onError });
    try {
      await work(signal);
    } finally {
      await stop();
    }
  }

  let sweeping: Promise<void> | undefined;
  const sweep = (signal: AbortSignal): Promise<void> =>
    (sweeping ??= sweepInTurn(signal).finally(() => void (sweeping = undefined)));
  let cancel: (() => void) | undefined;
  const sweepByTimer = (): void => {
    cancel = backgroundClock.schedule(sweepByTimer, everyMs);
    sweep(AbortSignal.any([closing])).catch((error: unknown) => {
      if (!closing.aborted) onError(error);
    });
  };
  sweepByTimer();

  return {
    sweep,
    async close() {
      cancel?.();
      await sweeping?.catch(() => {});
      await store.leave(account, place).catch(onError);
    },
  };
}
