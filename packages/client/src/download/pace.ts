import { SluiceError } from "@sluice/core";
import type { TransferTimeouts } from "./transfer-timeouts.ts";

/** Watches that bytes keep coming. The time in which the reader is slow does not count. */
export interface Pace {
  note(bytes: number): void;
  /** The reader is busy: clocks stand still until `go`. */
  hold(): void;
  go(): void;
  /** Ends the watch and tells how long it waited for bytes, in milliseconds. */
  stop(): number;
}

/**
 * Calls `expire` once when nothing came for `idleMs` (with `interrupted`, another connection may
 * do better), or when the bytes come slower than the least rate or longer than the total time
 * (with `timeout`, they will not).
 */
export function startPace(
  timeouts: TransferTimeouts,
  totalMs: number,
  expire: (error: SluiceError) => void,
): Pace {
  const { idleMs, rateWindowMs, minBytesPerSecond } = timeouts;
  const least = (minBytesPerSecond * rateWindowMs) / 1_000;
  let waiting = true;
  let last = performance.now();
  let idle = 0;
  let window = { ms: 0, bytes: 0 };
  let total = 0;

  function settle(): void {
    const now = performance.now();
    if (waiting) {
      idle += now - last;
      total += now - last;
      window.ms += now - last;
    }
    last = now;
  }

  function check(): void {
    settle();
    if (idle > idleMs) expire(new SluiceError("interrupted", "client: the bytes stopped coming"));
    else if (total > totalMs)
      expire(new SluiceError("timeout", "client: the transfer takes too long; raise totalMs"));
    else if (window.ms >= rateWindowMs) {
      if (window.bytes < least)
        expire(new SluiceError("timeout", "client: the bytes come too slowly to be worth waiting"));
      window = { ms: 0, bytes: 0 };
    }
  }

  const step = Math.max(5, Math.min(1_000, idleMs / 4, rateWindowMs / 4, totalMs / 4));
  const timer = setInterval(check, step);
  return {
    note(bytes) {
      settle();
      idle = 0;
      window.bytes += bytes;
    },
    hold() {
      settle();
      waiting = false;
    },
    go() {
      settle();
      waiting = true;
    },
    stop() {
      settle();
      clearInterval(timer);
      return total;
    },
  };
}
