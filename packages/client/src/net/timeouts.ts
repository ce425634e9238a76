import { SluiceError } from "@sluice/core";
import { systemClock, type Lateness, type ThroughputRules } from "@sluice/core/internal";

/** How long to wait for a peer, in milliseconds, in either direction. */
export interface PeerTimeouts {
  /** For a connection. Default: 10 s. */
  readonly connectMs: number;
  /** Without a byte, received or taken by the server, until the connection is given up. Default: 30 s. */
  readonly idleMs: number;
  /** Minimum bytes per second, averaged over `rateWindowMs`. Slower is a `timeout`. Default: 1,024. */
  readonly minBytesPerSecond: number;
  /** Default: 30 s. */
  readonly rateWindowMs: number;
  /** Shortens or lengthens the pauses between tries, including those of `Retry-After`. Default: 1. */
  readonly pauseScale: number;
}

/** The defaults. */
export const peerTimeouts: PeerTimeouts = {
  connectMs: 10_000,
  idleMs: 30_000,
  minBytesPerSecond: 1_024,
  rateWindowMs: 30_000,
  pauseScale: 1,
};

/** How slow a watched peer may be. */
export function throughputRules(timeouts: PeerTimeouts): ThroughputRules {
  const { idleMs, minBytesPerSecond, rateWindowMs } = timeouts;
  return { idleMs, minBytesPerSecond, windowMs: rateWindowMs };
}

/** The error of a peer that is late. After `idle`, another connection may do better. */
export function lateError(lateness: Lateness, messages: Record<Lateness, string>): SluiceError {
  const code = lateness === "idle" ? "interrupted" : "timeout";
  return new SluiceError(code, `client: ${messages[lateness]}`);
}

const longestMs = 6 * 3_600_000;

/** How long this many bytes may take, in milliseconds: 60 s and 1 s for every 64 KiB, at most 6 h. */
export function fairMsOf(bytes: number): number {
  return Math.min(60_000 + (bytes / 65_536) * 1_000, longestMs);
}

/** Runs `run` with a signal that aborts with the first of `signals`, and with `expired()` after `timeoutMs`. */
export async function withDeadline<T>(
  signals: readonly AbortSignal[],
  timeoutMs: number,
  expired: () => SluiceError,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const cancel = systemClock.schedule(() => late.abort(expired()), timeoutMs);
  try {
    return await run(AbortSignal.any([...signals, late.signal]));
  } finally {
    cancel();
  }
}

/** The error of a server whose answer did not come in time. */
export function unanswered(server = "the server"): SluiceError {
  return new SluiceError("timeout", `client: ${server} did not answer in time`);
}
