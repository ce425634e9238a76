import { backgroundClock } from "./clock.ts";

/** Calls back once when nothing touched it for `idleMs`. One timer, however often it is touched. */
export class IdleTimer {
  readonly #idleMs: number;
  readonly #onIdle: () => void;
  #touchedAt: number;
  #cancel: () => void;

  /** Starts the time. A callback that touches the timer starts it again. */
  constructor(idleMs: number, onIdle: () => void) {
    this.#idleMs = idleMs;
    this.#onIdle = onIdle;
    this.#touchedAt = backgroundClock.now();
    this.#cancel = this.#lookIn(idleMs);
  }

  /** When it was touched last, by its clock. */
  get touchedAt(): number {
    return this.#touchedAt;
  }

  /** Starts the time again. */
  touch(): void {
    this.#touchedAt = backgroundClock.now();
  }

  /** Ends the timer. Idempotent. */
  stop(): void {
    this.#cancel();
  }

  #lookIn(ms: number): () => void {
    return backgroundClock.schedule(() => {
      if (this.#leftMs() <= 0) this.#onIdle();
      const leftMs = this.#leftMs();
      if (leftMs > 0) this.#cancel = this.#lookIn(leftMs);
    }, ms);
  }

  #leftMs(): number {
    return this.#touchedAt + this.#idleMs - backgroundClock.now();
  }
}
