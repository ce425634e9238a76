import { SluiceError } from "@sluice/core";
import { ensureKnownOptions, systemClock, within } from "@sluice/core/internal";

/**
 * A counter with a window. Every limiter of rate-limiter-flexible is one, in memory, in Redis or in
 * a database; what shares the counter between processes is its store.
 */
export interface RateLimiter {
  /**
   * Counts `points` for `key`. Rejects with an object that has `msBeforeNext`, the milliseconds
   * until the window ends, when that is more than the limit, and with anything else when it cannot tell.
   */
  consume(key: string, points: number): Promise<unknown>;
}

/** The limiters of one rate, each with a window of time. */
export interface RateLimits {
  /** Keyed by the principal's tag. The anonymous have none and count in `global` only. */
  readonly perPrincipal?: RateLimiter;
  /** For all callers together, under one key: in all processes that share the limiter. */
  readonly global?: RateLimiter;
}

/** What clients may do in a window of time. */
export interface SluiceRates {
  /**
   * Calls of list, read, subscribe and stream, redemptions of a genuine URL, and over HTTP openings and ends of
   * sessions, of invented ones too: one point each.
   */
  readonly requests?: RateLimits;
  /**
   * Bytes of resources: each transfer is let in while the window has anything left, and counted
   * when it ends, with what was delivered, and with what was read to find lines. What is left to a proxy
   * counts as delivered; a redirect counts when it is issued, with the size of the resource. One transfer
   * can so go over the limit; the next waits.
   */
  readonly bytes?: RateLimits;
  /**
   * Requests that are answered 404 at download URLs, and requests with slots or pages of uploads that are unknown or
   * another caller's: one point each, keyed by the address of the client (IPv6 by its /64). Beyond the limit they are
   * 429 with `Retry-After`, 100 to 200 ms later; a URL that works is never held back. Without an address nothing is
   * counted: behind proxies set `clientAddress`. Default: 20 a minute, in this process; `false` for no limit.
   */
  readonly failedRedemptions?: RateLimiter | false;
}

/** Counts the requests and bytes of principals, for one server. */
export class UsageMeter {
  readonly #rates: SluiceRates;
  readonly #onError: (error: unknown) => void;

  /** Throws a `TypeError` for rates that do not exist, and for a limiter without `consume`. */
  constructor(rates: SluiceRates, onError: (error: unknown) => void) {
    ensureKnownOptions("createSluice: rates", rates, rateNames);
    for (const name of ["requests", "bytes"] as const) {
      const limits = rates[name] ?? {};
      ensureKnownOptions(`createSluice: rates.${name}`, limits, limiterNames);
      for (const limiter of Object.values<RateLimiter | undefined>({ ...limits }))
        if (limiter && typeof limiter.consume !== "function")
          throw new TypeError(
            `createSluice: a limiter of rates.${name} must have consume(key, points)`,
          );
    }
    this.#rates = rates;
    this.#onError = onError;
  }

  /**
   * Counts a request and, if it will deliver bytes, asks whether any are left. Rejects with
   * `throttled` with `retryAfterMs`; `unavailable` when a limiter does not answer.
   */
  admit(principal: string | undefined, kind: "request" | "transfer"): Promise<void> | undefined {
    const { requests, bytes } = this.#rates;
    if (!requests && !bytes) return undefined;
    return (async () => {
      await consume("requests", requests, principal, 1);
      // one point: a window that is used up to the last byte has nothing left
      if (kind === "transfer") await consume("bytes", bytes, principal, 1);
    })();
  }

  /** Counts delivered bytes. */
  charge(principal: string | undefined, count: number): void {
    const { bytes } = this.#rates;
    if (!bytes || count === 0) return;
    // the bytes are out already, so they count globally even if the principal's own limiter is exceeded
    const { perPrincipal, global } = bytes;
    for (const limits of [perPrincipal && { perPrincipal }, global && { global }])
      consume("bytes", limits, principal, count).catch((error: unknown) => {
        if (!(SluiceError.is(error) && error.code === "throttled")) this.#onError(error);
      });
  }
}

const rateNames: Readonly<Record<keyof SluiceRates, true>> = {
  requests: true,
  bytes: true,
  failedRedemptions: true,
};
const limiterNames: Readonly<Record<keyof RateLimits, true>> = { perPrincipal: true, global: true };

/** Counts in the principal's own share first: a principal over it takes nothing from the others. */
async function consume(
  rate: "requests" | "bytes",
  limits: RateLimits | undefined,
  principal: string | undefined,
  points: number,
): Promise<void> {
  if (limits?.perPrincipal && principal !== undefined)
    await consumeAt(`${rate}.perPrincipal`, limits.perPrincipal, principal, points);
  if (limits?.global) await consumeAt(`${rate}.global`, limits.global, "all", points);
}

const answerMs = 5_000;

/**
 * Counts points at one limiter, whose `name` below `rates` messages have. Rejects with `throttled` beyond its limit, and
 * `unavailable` when it does not answer.
 */
export async function consumeAt(
  name: string,
  limiter: RateLimiter,
  key: string,
  points: number,
): Promise<void> {
  try {
    await within(limiter.consume(key, points), {
      clock: systemClock,
      timeoutMs: answerMs,
      expired: () => new Error(`no answer within ${answerMs} ms`),
    });
  } catch (error) {
    const retryAfterMs = (error as { msBeforeNext?: unknown } | undefined)?.msBeforeNext;
    if (typeof retryAfterMs === "number")
      throw new SluiceError(
        "throttled",
        `sluice: too much within one window of rates.${name}; wait and try again`,
        { retryAfterMs: Math.max(0, retryAfterMs) },
      );
    throw new SluiceError("unavailable", `sluice: the limiter rates.${name} does not answer`, {
      cause: error,
      retryAfterMs: 1_000,
    });
  }
}
