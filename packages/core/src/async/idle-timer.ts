import { backgroundClock, type Clock } from "./clock.ts";

/** Calls back once when nothing touched it for `idleMs`. One timer, however often it is touched. */
export class IdleTimer {
  readonly #idleMs: number;
  readonly #onIdle: () => void;
  readonly #clock: Clock;
  #touchedAt: number;
  #cancel: () => void;

  /** Starts the time. A callback that touches the timer starts it again. */
  constructor(idleMs: number, onIdle: () => void, clock: Clock = backgroundClock) {
    this.#idleMs = idleMs;
    this.#onIdle = onIdle;
    this.#clock = clock;
    this.#touchedAt = clock.now();
    this.#cancel = this.#lookIn(idleMs);
  }

  /** When it was touched last, by its clock. */
  get touchedAt(): number {
    return this.#touchedAt;
  }

  /** Starts the time again. */
  touch(): void {
    this.#touchedAt = this.#clock.now();
  }

  /** Ends the timer. Idempotent. */
  stop(): void {
    this.#cancel();
  }

  #lookIn(ms: number): () => void {
    return this.#clock.schedule(() => {
      if (this.#leftMs() <= 0) this.#onIdle();
      const leftMs = this.#leftMs();
      if (leftMs > 0) this.#cancel = this.#lookIn(leftMs);
    }, ms);
  }

  #leftMs(): number {
    return this.#touchedAt + this.#idleMs - this.#clock.now();
  }
}
