import { backgroundClock } from "@sluice/core/internal";
import type { UploadLease, UploadStore } from "@sluice/state";

/** A lease of this many milliseconds from now on. */
export function leaseOf(ms: number): UploadLease {
  const now = Date.now();
  return { now, until: now + ms };
}

/** The time for what processes share: that of the store, so that no process with a clock ahead ends what others do. */
export async function sharedNow(store: UploadStore): Promise<number> {
  return store.now ? store.now() : Date.now();
}

/**
 * Renews a lease on an interval, one call at a time. Gives the function that ends it, which waits for a call that is
 * under way: it must not come after what ends the lease. Failures go to `onError`.
 */
export function keepRenewed(
  renew: () => Promise<unknown>,
  { everyMs, onError }: { readonly everyMs: number; readonly onError: (error: unknown) => void },
): () => Promise<void> {
  let underWay: Promise<void> | undefined;
  const renewAgain = (): void => {
    cancel = backgroundClock.schedule(renewAgain, everyMs);
    underWay ??= renew().then(
      () => void (underWay = undefined),
      (error: unknown) => {
        underWay = undefined;
        onError(error);
      },
    );
  };
  let cancel = backgroundClock.schedule(renewAgain, everyMs);
  return async () => {
    cancel();
    await underWay;
  };
}
