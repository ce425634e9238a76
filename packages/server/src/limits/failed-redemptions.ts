import { SluiceError } from "@sluice/core";
import { sleep } from "@sluice/core/internal";
import { consumeAt, type RateLimiter } from "./rate-limits.ts";
import { addressShare } from "./share.ts";

/** Counts requests whose token opened nothing (download URLs, links, slots, upload pages), by client address. */
export interface FailedRedemptions {
  /**
   * Counts one. If that is too many, waits 100 to 200 ms, less after an abort, and gives `throttled`, which the client is told;
   * else `undefined`. Never rejects.
   */
  count(address: string | undefined, signal?: AbortSignal): Promise<SluiceError | undefined>;
  /**
   * Gives the error to answer with: `throttled` in place of an error that is answered 404, when its address had too many of
   * those; else the error itself. Never rejects.
   */
  errorToReport(
    error: unknown,
    address: string | undefined,
    signal?: AbortSignal,
  ): Promise<unknown>;
}

/** Makes the count of one server: with false, none. Throws a `TypeError` for a limiter without `consume`. */
export function createFailedRedemptions(
  limiter: RateLimiter | false = createMemoryLimiter(maxFailures),
  onError: (error: unknown) => void,
): FailedRedemptions {
  if (limiter !== false && typeof limiter.consume !== "function")
    throw new TypeError("sluice: a limiter of failed redemptions must have consume(key, points)");
  let isLimiterDown = false;

  const count: FailedRedemptions["count"] = async (address, signal) => {
    const share = addressShare(address);
    if (limiter === false || share === undefined) return undefined;
    try {
      await consumeAt("failedRedemptions", limiter, share, 1);
      isLimiterDown = false;
    } catch (error) {
      if (SluiceError.is(error) && error.code === "throttled") {
        // spread over time: requests that come together would come together again
        await sleep(refusedMs * (1 + Math.random()), signal).catch(() => {});
        return error;
      }
      // reported once: an attacker could fill the log
      if (!isLimiterDown) onError(error);
      isLimiterDown = true;
    }
    return undefined;
  };

  return {
    count,
    errorToReport: async (error, address, signal) =>
      (isNotFound(error) && (await count(address, signal))) || error,
  };
}

/** Errors that download URLs answer with 404. All of them look alike, also beyond the limit. */
const notFound: ReadonlySet<string> = new Set([
  "not_found",
  "permission_denied",
  "unsupported",
  "invalid_argument",
]);

function isNotFound(error: unknown): boolean {
  return SluiceError.is(error) && notFound.has(error.code);
}

/** Shortest wait for a response beyond the limit. A client that waits on this connection sends no other request. */
const refusedMs = 100;
/** How many an address has in a minute. */
const maxFailures = 20;

const windowMs = 60_000;
const maxKeys = 10_000;

/** `maxPoints` a minute for each key, in bounded memory: what comes for further keys in that minute shares one count. */
export function createMemoryLimiter(maxPoints: number): RateLimiter {
  const counts = new Map<string, number>();
  let endsAt = 0;
  return {
    async consume(key, points) {
      const now = Date.now();
      if (now >= endsAt) {
        counts.clear();
        endsAt = now + windowMs;
      }
      const counted = counts.has(key) || counts.size < maxKeys ? key : "others";
      const count = (counts.get(counted) ?? 0) + points;
      counts.set(counted, count);
      if (count > maxPoints)
        throw Object.assign(new Error("too many in this minute"), { msBeforeNext: endsAt - now });
    },
  };
}
