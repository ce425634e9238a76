/** Least bytes per second that a peer has to move while it is its turn. */
const minBytesPerSecond = 4_096;

/**
 * How long a peer may keep the other end waiting: for so many milliseconds, and a second more for every 4 KiB
 * that it moves. A peer that stops is late, and so is one that drips; one that is fast saves nothing up.
 */
export class Pace {
  readonly #graceMs: number;
  #leftMs: number;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
    this.#leftMs = graceMs;
  }

  /** Milliseconds that it has left; negative when it is late. */
  get leftMs(): number {
    return this.#leftMs;
  }

  /** Counts time in which it was the peer's turn, and what it moved in it. */
  spend(waitedMs: number, bytes: number): void {
    this.#leftMs = Math.min(this.#graceMs, this.#leftMs - waitedMs + msFor(bytes));
  }

  /** Counts time in which nobody waited for it. */
  rest(ms: number): void {
    this.spend(-ms, 0);
  }
}

/** Milliseconds that so many bytes may take. */
export function msFor(bytes: number): number {
  return (bytes * 1_000) / minBytesPerSecond;
}
