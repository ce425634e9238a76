/** How long to wait for what, in milliseconds. */
export interface SendTimeouts {
  /** For a connection. Default: 10 s. */
  readonly connectMs: number;
  /** For the answer, once everything is sent, and 1 s more for every 16 MiB of it. Default: 60 s. */
  readonly answerMs: number;
  /** In which the server must take a byte. Default: 30 s. */
  readonly idleMs: number;
  /** Least bytes per second, averaged over `rateWindowMs`. Slower is a `timeout`. Default: 1,024. */
  readonly minBytesPerSecond: number;
  /** Default: 30 s. */
  readonly rateWindowMs: number;
  /** Shortens or lengthens the pauses between tries. Default: 1. */
  readonly pauseScale: number;
}

/** The defaults. */
export const sendTimeouts: SendTimeouts = {
  connectMs: 10_000,
  answerMs: 60_000,
  idleMs: 30_000,
  minBytesPerSecond: 1_024,
  rateWindowMs: 30_000,
  pauseScale: 1,
};

/** How long to wait for an answer to a body that was sent. */
export function answerMsOf(timeouts: SendTimeouts, bytes: number): number {
  return timeouts.answerMs + (bytes / 2 ** 24) * 1_000;
}
