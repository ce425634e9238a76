/** Default minimum of bytes per second that a peer moves while it is its turn. */
const defaultBytesPerSecond = 4_096;

/**
 * How long a peer may keep this process waiting: for `graceMs`, and a second more for every 4 KiB
 * that it moves. A peer that stops is late, and so is one that drips; one that is fast saves
 * nothing up.
 */
export class ThroughputBudget {
  readonly #graceMs: number;
  readonly #bytesPerMs: number;
  #leftMs: number;

  constructor(graceMs: number, minBytesPerSecond: number = defaultBytesPerSecond) {
    this.#graceMs = graceMs;
    this.#bytesPerMs = minBytesPerSecond / 1_000;
    this.#leftMs = graceMs;
  }

  /** Milliseconds that are left; negative when the peer is late. */
  get leftMs(): number {
    return this.#leftMs;
  }

  msFor(bytes: number): number {
    return bytes / this.#bytesPerMs;
  }

  /** Counts time in which it was the peer's turn, and what the peer moved in it. */
  spend(waitedMs: number, bytes: number): void {
    this.#leftMs = Math.min(this.#graceMs, this.#leftMs - waitedMs + this.msFor(bytes));
  }

  /** Counts time in which it was not the peer's turn. */
  rest(ms: number): void {
    this.spend(-ms, 0);
  }
}
