import { msFor, Pace } from "./pace.ts";

/** What a {@link PeerWatch} needs. */
interface PeerWatchOptions {
  /** Milliseconds for which a peer may do nothing in its turn. Default 30,000. */
  readonly graceMs?: number;
  /** The peer moves nothing, or less than 4 KiB a second: called once. */
  readonly onLate: () => void;
}

/**
 * Watches a peer that is to take what was written, or to send the rest of what it began. Its one timer runs
 * while it is the peer's turn, or was of late.
 */
export class PeerWatch {
  readonly #graceMs: number;
  readonly #pace: Pace;
  readonly #onLate: () => void;
  /** When its turn, or the rest after that, began; or when it moved something last. */
  #since = performance.now();
  #isTurn = false;
  #bytes = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor({ graceMs = 30_000, onLate }: PeerWatchOptions) {
    this.#graceMs = graceMs;
    this.#pace = new Pace(graceMs);
    this.#onLate = onLate;
  }

  /** It is the peer's turn: to move so many bytes more, where their number is known. */
  begin(bytes = 0): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    if (this.#isTurn) return;
    this.#pace.rest(this.#passedMs());
    this.#isTurn = true;
    this.#timer ??= this.#lookIn(this.#graceMs);
  }

  /** The peer moved so many bytes. Its turn is over, but for what is left of those that it was to move. */
  moved(bytes: number): void {
    if (!this.#isTurn) return;
    this.#pace.spend(this.#passedMs(), bytes);
    this.#bytes = Math.max(0, this.#bytes - bytes);
    this.#isTurn = this.#bytes > 0;
    if (this.#pace.leftMs < 0) this.#giveUp();
  }

  /** Ends the watch. */
  close(): void {
    this.#isClosed = true;
    this.#isTurn = false;
    clearTimeout(this.#timer);
  }

  #passedMs(): number {
    const before = this.#since;
    this.#since = performance.now();
    return this.#since - before;
  }

  #lookIn(ms: number): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => {
      this.#timer = undefined;
      if (!this.#isTurn) return;
      const dueMs = this.#pace.leftMs + msFor(this.#bytes);
      const leftMs = this.#since + dueMs - performance.now();
      if (leftMs <= 0) this.#giveUp();
      else this.#timer = this.#lookIn(Math.ceil(Math.min(leftMs, longestTimerMs)));
    }, ms);
    (timer as { unref?: () => void }).unref?.();
    return timer;
  }

  #giveUp(): void {
    if (this.#isClosed) return;
    this.close();
    this.#onLate();
  }
}

/** Beyond that, timers fire at once. */
const longestTimerMs = 2 ** 31 - 1;
