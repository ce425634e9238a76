import { backgroundClock } from "./clock.ts";
import { ThroughputBudget } from "./throughput-watch.ts";

/** Options of a {@link PeerWatch}. */
export interface PeerWatchOptions {
  /** Milliseconds for which a peer may do nothing in its turn. Default 30,000. */
  readonly graceMs?: number;
  /** The peer moves nothing, or less than 4 KiB a second: called once. */
  readonly onLate: () => void;
}

/**
 * Watches a peer that is to take the written bytes, or to send the rest of its own. Its one timer runs
 * while it is the peer's turn, or was of late. Time in which this process did not run is not the peer's.
 */
export class PeerWatch {
  readonly #budget: ThroughputBudget;
  readonly #lookMs: number;
  readonly #onLate: () => void;
  /** Until when time is counted. */
  #countedTo = backgroundClock.now();
  #isTurn = false;
  #bytes = 0;
  #cancelLook: (() => void) | undefined;
  #isClosed = false;

  constructor({ graceMs = 30_000, onLate }: PeerWatchOptions) {
    this.#budget = new ThroughputBudget(graceMs);
    this.#lookMs = Math.min(graceMs / 10, 3_000);
    this.#onLate = onLate;
  }

  /** It is the peer's turn: to move this many more bytes, if the number is known. */
  begin(bytes = 0): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    if (this.#isTurn) return;
    this.#count();
    this.#isTurn = true;
    this.#cancelLook ??= this.#lookIn(this.#lookMs);
  }

  /**
   * The peer moved this many bytes. Its turn ends, unless some of those that it was to move are
   * left.
   */
  moved(bytes: number): void {
    if (!this.#isTurn) return;
    this.#count();
    this.#budget.spend(0, bytes);
    this.#bytes = Math.max(0, this.#bytes - bytes);
    this.#isTurn = this.#bytes > 0;
    if (this.#budget.leftMs < 0) this.#giveUp();
  }

  close(): void {
    this.#isClosed = true;
    this.#isTurn = false;
    this.#cancelLook?.();
  }

  #count(): void {
    const now = backgroundClock.now();
    const ms = now - this.#countedTo;
    this.#countedTo = now;
    // longer between two looks: the process, or the machine, was stopped, and so was what the peer had sent
    if (this.#isTurn) this.#budget.spend(Math.min(ms, 2 * this.#lookMs), 0);
    else this.#budget.rest(ms);
  }

  #lookIn(ms: number): () => void {
    return backgroundClock.schedule(() => {
      this.#cancelLook = undefined;
      if (!this.#isTurn) return;
      this.#count();
      const leftMs = this.#budget.leftMs + this.#budget.msFor(this.#bytes);
      if (leftMs <= 0) this.#giveUp();
      else this.#cancelLook = this.#lookIn(Math.ceil(Math.min(leftMs, this.#lookMs)));
    }, ms);
  }

  #giveUp(): void {
    if (this.#isClosed) return;
    this.close();
    this.#onLate();
  }
}
