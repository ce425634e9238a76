import { fairMsOf } from "../net/fair-time.ts";

/** How long to wait for what, in milliseconds. The time in which the reader does not read does not count. */
export interface TransferTimeouts {
  /** For a connection. Default: 10 s. */
  readonly connectMs: number;
  /** For the headers of an answer, and for all of one that is a JSON-RPC message. Default: 30 s. */
  readonly headersMs: number;
  /** Without a byte until the connection is given up and another one tried. Default: 30 s. */
  readonly idleMs: number;
  /** Least bytes per second, averaged over `rateWindowMs`. Slower is a `timeout`. Default: 1,024. */
  readonly minBytesPerSecond: number;
  /** Default: 30 s. */
  readonly rateWindowMs: number;
  /**
   * For the whole transfer. Default: 60 s and 1 s for every 64 KiB, at most 6 h. The pauses between
   * tries have as much again, by default 5 min at least; a server that still says no after them
   * ends the transfer as `throttled`, `unavailable` or `interrupted`.
   */
  readonly totalMs?: number;
  /** Shortens or lengthens the pauses between tries. Default: 1. */
  readonly pauseScale: number;
}

/** The defaults. */
export const transferTimeouts: TransferTimeouts = {
  connectMs: 10_000,
  headersMs: 30_000,
  idleMs: 30_000,
  minBytesPerSecond: 1_024,
  rateWindowMs: 30_000,
  pauseScale: 1,
};

/** How long a transfer of `size` bytes may take. */
export function totalMsOf({ totalMs }: TransferTimeouts, size: number | undefined): number {
  return totalMs ?? fairMsOf(size ?? Number.POSITIVE_INFINITY);
}

/** How long all pauses between tries may take together: as long as the bytes, without `totalMs` 5 min at least. */
export function pausesMsOf(timeouts: TransferTimeouts, size: number | undefined): number {
  return timeouts.totalMs ?? Math.max(300_000, totalMsOf(timeouts, size));
}
