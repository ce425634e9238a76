import type { UploadLease } from "@sluice/state";

/** A lease of so many milliseconds from now on. */
export function leaseOf(ms: number): UploadLease {
  const now = Date.now();
  return { now, until: now + ms };
}

/**
 * Calls `prolong` again and again, once at a time. Gives the function that ends it, which waits for a call that is
 * under way: it must not come after what ends the lease. Failures go to `onError`.
 */
export function keepProlonged(
  prolong: () => Promise<unknown>,
  { everyMs, onError }: { readonly everyMs: number; readonly onError: (error: unknown) => void },
): () => Promise<void> {
  let underWay: Promise<void> | undefined;
  const timer = setInterval(() => {
    underWay ??= prolong().then(
      () => void (underWay = undefined),
      (error: unknown) => {
        underWay = undefined;
        onError(error);
      },
    );
  }, everyMs);
  // where timers are objects they must not keep a process from ending
  (timer as { unref?: () => void }).unref?.();
  return async () => {
    clearInterval(timer);
    await underWay;
  };
}
