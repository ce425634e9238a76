import type { UploadStore } from "@sluice/state";
import { keepProlonged, leaseOf } from "../slots/leases.ts";
import { newId } from "../slots/random-id.ts";
import { sweepUploads } from "./sweep.ts";
import { graceMs, type UploadsParts } from "../slots/uploads-parts.ts";

/** Sweeps, in one process at a time of those that share a store. */
export interface Sweeper {
  /** Sweeps now, unless another process does so. */
  sweep(signal: AbortSignal): Promise<void>;
  /** Ends the timer, waits for the sweep under way, and leaves the place to another process. */
  close(): Promise<void>;
}

/** The one place there is. Owners are hexadecimal or `anonymous`. */
const account = "sweep";

/** Sweeps at once and by timer. Whoever swept last goes on with it, and another one when it has missed a turn. */
export function startSweeper(
  parts: UploadsParts,
  { store, everyMs }: { readonly store: UploadStore; readonly everyMs: number },
): Sweeper {
  const { host, closing } = parts;
  const place = newId();
  const enter = (): Promise<boolean> =>
    store.enter(account, place, { ...leaseOf(2 * everyMs), places: 1 });

  async function sweepInTurn(signal: AbortSignal): Promise<void> {
    // what this process has counted, which nobody else can forget
    parts.board.forgetBefore(Date.now() - graceMs);
    if (!(await enter())) return;
    const stop = keepProlonged(enter, { everyMs, onError: host.onError });
    try {
      await sweepUploads(parts, signal);
    } finally {
      await stop();
    }
  }

  let sweeping: Promise<void> | undefined;
  const sweep = (signal: AbortSignal): Promise<void> =>
    (sweeping ??= sweepInTurn(signal).finally(() => void (sweeping = undefined)));
  const sweepAlone = (): void =>
    void sweep(AbortSignal.any([closing])).catch((error: unknown) => {
      if (!closing.aborted) host.onError(error);
    });
  const timer = setInterval(sweepAlone, everyMs);
  // where timers are objects they must not keep a process from ending
  (timer as { unref?: () => void }).unref?.();
  sweepAlone();

  return {
    sweep,
    async close() {
      clearInterval(timer);
      await sweeping?.catch(() => {});
      await store.leave(account, place).catch(host.onError);
    },
  };
}
