/** The source of time for waits; tests replace it. */
export interface Clock {
  /** Milliseconds since some fixed moment; only differences matter. */
  now(): number;
  /** Calls back once after `delayMs`, however long that is. The returned function cancels the call. */
  schedule(callback: () => void, delayMs: number): () => void;
}

/** The clock of the platform: monotonic, not moved by changes of the system time. */
export const systemClock: Clock = platformClock((timer) => timer);

/** The clock of the platform, with timers that keep no Node process alive. */
export const backgroundClock: Clock = platformClock((timer) => {
  // a number in browsers
  (timer as { unref?: () => void }).unref?.();
  return timer;
});

type Timer = ReturnType<typeof setTimeout>;

/** The longest delay that `setTimeout` takes; it fires at once for a longer one. */
const longestMs = 2 ** 31 - 1;

function platformClock(prepare: (timer: Timer) => Timer): Clock {
  return {
    now: () => performance.now(),
    schedule(callback, delayMs) {
      let timer: Timer;
      const wait = (leftMs: number): void => {
        const next = leftMs > longestMs ? () => wait(leftMs - longestMs) : callback;
        timer = prepare(setTimeout(next, Math.min(leftMs, longestMs)));
      };
      wait(delayMs);
      return () => clearTimeout(timer);
    },
  };
}

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
