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
