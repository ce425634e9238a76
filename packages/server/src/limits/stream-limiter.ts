import { SluiceError } from "@sluice/core";
import { ConcurrencyLimiter } from "@sluice/core/internal";
import { shareOf, type CompleteLimits } from "./share.ts";

/** Counts open streams. */
export interface StreamLimiter {
  /**
   * Takes a permit and gives the function that gives it back (idempotent). Throws `throttled` when the principal, or
   * the address of a caller without one, has its share already, `unavailable` when the process is full.
   */
  take(principal: string | undefined, address?: string): () => void;
}

/** Makes the counters of one server; `onChange` is called for each permit that is taken or released. */
export function createStreamLimiter(
  limits: CompleteLimits,
  onChange: (change: 1 | -1) => void = () => {},
): StreamLimiter {
  const open = new ConcurrencyLimiter();
  return {
    take(principal, address) {
      const leaveProcess = open.take("process", limits.perProcess);
      if (!leaveProcess)
        throw new SluiceError("unavailable", "sluice: too many streams are open", {
          retryAfterMs: 1_000,
        });
      const share = shareOf(limits, principal, address);
      const leaveShare = share ? open.take(share.name, share.limit) : () => {};
      if (!leaveShare) {
        leaveProcess();
        throw new SluiceError("throttled", "sluice: this client has too many open streams", {
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

/** Takes a permit of both limiters, or of none. */
export function takePermits(
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
