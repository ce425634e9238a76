import type { UploadLease } from "@sluice/core";

/** A lease of so many milliseconds from now on. */
export function leaseOf(ms: number): UploadLease {
  const now = Date.now();
  return { now, until: now + ms };
}

/** Calls `prolong` again and again, once at a time, until the function that it gives is called. Failures go to `onError`. */
export function keepProlonged(
  prolong: () => Promise<unknown>,
  { everyMs, onError }: { readonly everyMs: number; readonly onError: (error: unknown) => void },
): () => void {
  let isBusy = false;
  const timer = setInterval(() => {
    if (isBusy) return;
    isBusy = true;
    prolong()
      .catch(onError)
      .finally(() => void (isBusy = false));
  }, everyMs);
  // where timers are objects they must not keep a process from ending
  (timer as { unref?: () => void }).unref?.();
  return () => clearInterval(timer);
}
