import type { UploadLease } from "@sluice/state";
import { backgroundClock } from "@sluice/core/async";

/** A lease of so many milliseconds from now on. */
export function leaseOf(ms: number): UploadLease {
  const now = Date.now();
  return { now, until: now + ms };
}

/**
 * Renews a lease on an interval, one call at a time. Gives the function that ends it, which waits for a call that is
 * under way: it must not come after what ends the lease. Failures go to `onError`.
 */
export function keepProlonged(
  prolong: () => Promise<unknown>,
  { everyMs, onError }: { readonly everyMs: number; readonly onError: (error: unknown) => void },
): () => Promise<void> {
  let underWay: Promise<void> | undefined;
  const renew = (): void => {
    cancel = backgroundClock.schedule(renew, everyMs);
    underWay ??= prolong().then(
      () => void (underWay = undefined),
      (error: unknown) => {
        underWay = undefined;
        onError(error);
      },
    );
  };
  let cancel = backgroundClock.schedule(renew, everyMs);
  return async () => {
    cancel();
    await underWay;
  };
}
