import { SluiceError } from "@sluice/core";
import { sleep, systemClock } from "@sluice/core/internal";
import { type StorageBackend, withKept } from "../contract/backend.ts";
import { type Surroundings, wrapBackend } from "./wrap.ts";

const firstDelayMs = 100;
const longestDelayMs = 5000;
/** Each success adds this to the budget: a working service allows one retry in ten calls. */
const refund = 0.1;

/** Settings of {@link withRetry}. */
export interface RetryOptions {
  /** Tries of one call in all. Default: 4. */
  readonly maxAttempts?: number;
  /** Retries that all calls together may make before successes earn new ones. Default: 20. */
  readonly retryBudget?: number;
  /** Longest `retryAfterMs` that is waited for; above it the error goes to the caller. Default: 20 s. */
  readonly maxWaitMs?: number;
}

/**
 * Repeats `describe`, `open`, `list`, `remove` and the beginning of a write when they fail with a `retryable` error.
 * At that point no byte was delivered, and a second removal is harmless. Writers get the same as `repeat`, for each
 * of their requests. Delays double from 100 ms to 5 s with full jitter, on top of the service's `retryAfterMs`. A
 * call that is `unavailable` with a `retryAfterMs` of 0 never reached the service, and is repeated at once. All
 * other calls share a budget, so that a broken service does not get several times the requests of a working one.
 */
export function withRetry(
  backend: StorageBackend,
  options: RetryOptions & Surroundings = {},
): StorageBackend {
  const { maxAttempts: attempts = 4, retryBudget = 20, maxWaitMs = 20_000 } = options;
  const { random = Math.random, clock = systemClock } = options;
  let budget = retryBudget;

  const persist = async <T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await call();
        budget = Math.min(retryBudget, budget + refund);
        return result;
      } catch (error) {
        signal?.throwIfAborted();
        if (!SluiceError.is(error) || !error.retryable || attempt >= attempts) throw error;
        const { code, retryAfterMs } = error;
        if (code === "unavailable" && retryAfterMs === 0) continue;
        if (budget < 1 || (retryAfterMs ?? 0) > maxWaitMs) throw error;
        budget -= 1;
        const longest = Math.min(longestDelayMs, firstDelayMs * 2 ** (attempt - 1));
        await sleep((retryAfterMs ?? 0) + random() * longest, signal, clock);
      }
    }
  };

  return wrapBackend(backend, {
    describe: (describe) => (key, call) => persist(() => describe(key, call), call?.signal),
    open: (open) =>
      withKept((key, call) => persist(() => open(key, call), call?.signal), open.inMemory),
    list: (list) => (call) => persist(() => list(call), call?.signal),
    remove: (remove) => (key, call) => persist(() => remove(key, call), call?.signal),
    write: (write) => (key, call) =>
      persist(() => write(key, { ...call, repeat: persist }), call?.signal),
    writeInSteps: (writeInSteps) => (key, call) => {
      const persistent = { ...call, repeat: persist };
      // a begin sends its one request by `repeat`: repeated as a whole it would leave an object
      // unknown to any caller
      return call?.id === undefined
        ? writeInSteps(key, persistent)
        : persist(() => writeInSteps(key, persistent), call.signal);
    },
  });
}
