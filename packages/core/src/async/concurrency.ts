import { type Clock, systemClock } from "./clock.ts";

/** Counts operations in progress for each key. An idle key takes no memory. */
export class ConcurrencyLimiter {
  readonly #counts = new Map<string, number>();

  /**
   * Counts one more under a key, and gives the function that ends it, which is idempotent.
   * `undefined` when `limit` are in progress.
   */
  take(key: string, limit: number): (() => void) | undefined {
    const count = this.#counts.get(key) ?? 0;
    if (count >= limit) return undefined;
    this.#counts.set(key, count + 1);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      const left = this.#counts.get(key)! - 1;
      if (left === 0) this.#counts.delete(key);
      else this.#counts.set(key, left);
    };
  }
}

const { setImmediate: inNextTurn } = globalThis as {
  readonly setImmediate?: (task: () => void) => unknown;
};

/**
 * Runs tasks in their order, each in its own turn of the event loop: microtasks of one end before the next. The MCP
 * SDK handles a notification in a microtask and a result at once, so a result that comes in the same turn as the
 * progress before it would end the call first. A task that finds no other waiting runs at once. Runtimes without
 * `setImmediate` are browsers and Workers, which give every message a turn.
 */
export class TurnQueue {
  #waiting = 0;

  run(task: () => void): void {
    if (!inNextTurn) return task();
    const isFirst = this.#waiting === 0;
    this.#waiting += 1;
    inNextTurn(() => {
      this.#waiting -= 1;
      if (!isFirst) task();
    });
    if (isFirst) task();
  }
}

/**
 * Shares runs of `work` among calls for the same key. A call gets a run that begins after it: calls made while one runs
 * share the next. A run that rejects rejects for all that share it, and the next begins all the same.
 */
export function createSharedRuns<T>(
  work: (key: string) => Promise<T>,
): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>();
  const next = new Map<string, Promise<T>>();

  async function run(key: string): Promise<T> {
    try {
      return await work(key);
    } finally {
      running.delete(key);
    }
  }

  function begin(key: string): Promise<T> {
    next.delete(key);
    const begun = run(key);
    running.set(key, begun);
    return begun;
  }

  return (key) => {
    const nextRun = next.get(key);
    if (nextRun) return nextRun;
    const before = running.get(key);
    if (!before) return begin(key);
    const goOn = (): Promise<T> => begin(key);
    const after = before.then(goOn, goOn);
    next.set(key, after);
    return after;
  };
}

/**
 * Wakes a loop that looks whether there is something to do. News that arrives while nothing waits
 * is kept: the next wait ends at once. So a loop looks first and waits then, and misses nothing.
 */
export class Notifier {
  #hasNews = false;
  #next: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  /** Ends the waits, or the next one. */
  notify(): void {
    if (this.#wake) this.#wake();
    else this.#hasNews = true;
    this.#next = this.#wake = undefined;
  }

  /** Resolves when there was news since the wait before; all that wait share it. */
  wait(): Promise<void> {
    if (this.#hasNews) {
      this.#hasNews = false;
      return Promise.resolve();
    }
    this.#next ??= new Promise((resolve) => (this.#wake = resolve));
    return this.#next;
  }
}

const gapMs = 10;

/**
 * How long a result waits behind the notifications before it. A client on the MCP SDK that takes both in one read of a pipe ends
 * the call before it handles the progress. No pipe tells when its reader has read: the time is enough for one that is not busy.
 */
export class ResultGap {
  readonly #clock: Clock;
  #notifiedAt = -Infinity;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Milliseconds until this message may be written; 0 for all but results that closely follow a notification. */
  waitMs(message: object): number {
    if (!("method" in message)) return Math.max(0, this.#notifiedAt + gapMs - this.#clock.now());
    this.#notifiedAt = this.#clock.now();
    return 0;
  }
}
