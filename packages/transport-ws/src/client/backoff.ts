/** When and how often to connect again. */
export interface ReconnectOptions {
  /**
   * Tries in a row before the transport gives up and closes; 8. A connection that brought a message, or
   * lasted longer than `maxMs`, ends the row.
   */
  readonly maxTries?: number;
  /** Longest first pause in milliseconds; 500. It doubles with each try. */
  readonly baseMs?: number;
  /**
   * Longest pause of all in milliseconds; 30,000. A `Retry-After` of the server comes in addition; one over
   * 60 s ends the tries.
   */
  readonly maxMs?: number;
}

/** Default of `maxMs`. */
export const longestPauseMs = 30_000;

/**
 * Milliseconds to wait before try number `tries`, counted from 0: anything up to a bound that doubles
 * ("full jitter"), so that the clients of a server that restarts do not come back all at once.
 * `retryAfterMs`, where the server named it, is waited in addition.
 */
export function backoffMs(
  tries: number,
  { baseMs = 500, maxMs = longestPauseMs }: ReconnectOptions,
  { retryAfterMs = 0, random = Math.random }: { retryAfterMs?: number; random?: () => number } = {},
): number {
  return retryAfterMs + random() * Math.min(maxMs, baseMs * 2 ** tries);
}
