import { SluiceError } from "@sluice/core";
import { ConcurrencyLimiter } from "@sluice/core/internal";
import { ensureLimit, shareOf } from "./share.ts";

/** Maximum streams at the same time; a `resources/read` is also one, until its response is sent. */
export interface StreamLimits {
  /** For one principal; more are answered with 429. Default 8. */
  readonly perPrincipal?: number;
  /**
   * For one address, of callers without a principal; more are answered with 429. An IPv6 address counts with its /64. Default:
   * no limit, for behind a proxy all callers may have one address: set it where the adapter's `proxyHops` or `address` is right.
   */
  readonly perAddress?: number;
  /** For this process; more are answered with 503. Default 256. */
  readonly perProcess?: number;
  /** Streams of `subscriptions/listen` over HTTP, counted apart. Default 32 for one principal and 10,000 for this process. */
  readonly listeners?: Omit<StreamLimits, "listeners" | "answers">;
  /** Bytes of responses with content in JSON that are being made or are not sent yet. */
  readonly answers?: AnswerLimits;
}

/**
 * Maximum bytes of memory for responses to `resources/read` and to the read tool, from before storage is read until
 * the last byte is handed to the network, where the transport says when that is. A response counts with three times
 * its JSON, as many copies as there are of it on its way, and a stream of a registered resource with its bytes. One
 * answer alone may be larger.
 */
export interface AnswerLimits {
  /** For one principal; more are answered with 429. Default 64 MiB. */
  readonly perPrincipal?: number;
  /** For one address, of callers without a principal; more are answered with 429. Default: no limit. */
  readonly perAddress?: number;
  /** For this process; more are answered with 503. Default 256 MiB. */
  readonly perProcess?: number;
}

/** Counts open streams. */
export interface StreamLimiter {
  /**
   * Takes a place and gives the function that gives it back (idempotent). Throws `throttled` when
   * the principal, or the address of a caller without one, has its share already, `unavailable` when the process is full.
   */
  take(principal: string | undefined, address?: string): () => void;
}

/**
 * Makes the counters of one server; `onChange` hears of each place that is taken or given back. Limits that are not
 * whole numbers from 1 are a `RangeError`.
 */
export function createStreamLimiter(
  limits: StreamLimits = {},
  onChange: (change: 1 | -1) => void = () => {},
): StreamLimiter {
  const { perPrincipal = 8, perAddress, perProcess = 256 } = limits;
  for (const limit of [perPrincipal, perAddress, perProcess]) ensureLimit(limit);
  const open = new ConcurrencyLimiter();
  return {
    take(principal, address) {
      const leaveProcess = open.take("process", perProcess);
      if (!leaveProcess)
        throw new SluiceError("unavailable", "sluice: too many streams are open", {
          retryAfterMs: 1_000,
        });
      const share = shareOf({ perPrincipal, perAddress }, principal, address);
      const leaveShare = share ? open.take(share.name, share.limit) : () => {};
      if (!leaveShare) {
        leaveProcess();
        throw new SluiceError("throttled", "sluice: too many streams are open for one client", {
          retryAfterMs: 1_000,
        });
      }
      onChange(1);
      let isTaken = true;
      return () => {
        if (!isTaken) return;
        isTaken = false;
        leaveShare();
        leaveProcess();
        onChange(-1);
      };
    },
  };
}

/** Takes a place of each limiter, or none: what the second throws gives the first place back. */
export function takePlaces(
  limiter: StreamLimiter,
  second: StreamLimiter | undefined,
  principal: string | undefined,
  address: string | undefined,
): () => void {
  const leave = limiter.take(principal, address);
  if (!second) return leave;
  try {
    const leaveSecond = second.take(principal, address);
    return () => {
      leaveSecond();
      leave();
    };
  } catch (error) {
    leave();
    throw error;
  }
}
