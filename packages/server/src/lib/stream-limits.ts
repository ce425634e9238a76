import { SluiceError } from "@sluice/core";

/** Most streams at the same time; a `resources/read` that is under way is one, too. */
export interface StreamLimits {
  /** For one principal; more are answered with 429. The anonymous count for the process only. Default 8. */
  readonly perPrincipal?: number;
  /** For this process; more are answered with 503. Default 256. */
  readonly perProcess?: number;
  /** Streams of `subscriptions/listen` over HTTP, counted apart. Default 32 for one principal and 10,000 for this process. */
  readonly listeners?: Omit<StreamLimits, "listeners">;
}

/** Counts open streams. */
export interface StreamSlots {
  /**
   * Takes a place and gives the function that gives it back (idempotent). Throws `throttled` when
   * the principal has its share already, `unavailable` when the process is full.
   */
  take(principal: string | undefined): () => void;
}

/**
 * Makes the counters of one server; `onChange` hears of each place that is taken or given back.
 * Limits that are no whole number from 1 are a `RangeError`.
 */
export function createStreamSlots(
  limits: StreamLimits = {},
  onChange: (change: 1 | -1) => void = () => {},
): StreamSlots {
  const { perPrincipal = 8, perProcess = 256 } = limits;
  for (const limit of [perPrincipal, perProcess])
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new RangeError(`createSluice: ${limit} is no limit; pass a whole number from 1`);
  const held = new Map<string, number>();
  let total = 0;
  return {
    take(principal) {
      if (total >= perProcess)
        throw new SluiceError("unavailable", "sluice: too many streams are open", {
          retryAfterMs: 1_000,
        });
      const mine = principal === undefined ? 0 : (held.get(principal) ?? 0);
      if (mine >= perPrincipal)
        throw new SluiceError("throttled", "sluice: too many streams are open for one principal", {
          retryAfterMs: 1_000,
        });
      total += 1;
      onChange(1);
      if (principal !== undefined) held.set(principal, mine + 1);
      let taken = true;
      return () => {
        if (!taken) return;
        taken = false;
        total -= 1;
        onChange(-1);
        if (principal === undefined) return;
        const left = (held.get(principal) ?? 1) - 1;
        if (left === 0) held.delete(principal);
        else held.set(principal, left);
      };
    },
  };
}
