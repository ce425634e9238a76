import { fairMsOf, peerTimeouts, type PeerTimeouts } from "../net/timeouts.ts";

/** How long to wait for what, in milliseconds. The time in which the reader does not read does not count. */
export interface TransferTimeouts extends PeerTimeouts {
  /** For the headers of an answer, and for all of one that is a JSON-RPC message. Default: 30 s. */
  readonly headersMs: number;
  /**
   * For the whole transfer. Default: 60 s and 1 s for every 64 KiB, at most 6 h. The pauses between
   * tries have as much again, by default 5 min at least; a server that still says no after them
   * ends the transfer as `throttled`, `unavailable` or `interrupted`.
   */
  readonly totalMs?: number;
}

/** The defaults. */
export const transferTimeouts: TransferTimeouts = { ...peerTimeouts, headersMs: 30_000 };

/** How long a transfer of `size` bytes may take. */
export function totalMsOf({ totalMs }: TransferTimeouts, size: number = Infinity): number {
  return totalMs ?? fairMsOf(size);
}

/** How long all pauses between tries may take together. */
export function pausesMsOf(timeouts: TransferTimeouts, size: number | undefined): number {
  return timeouts.totalMs ?? Math.max(300_000, totalMsOf(timeouts, size));
}
