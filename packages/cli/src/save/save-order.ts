import { onAbort } from "@sluice/core/internal";

/** A path that belongs to one save of this run. */
export interface PlaceInOrder {
  readonly path: string;
  /** Lets the next save to the same path begin. Call it when this one ends. */
  readonly leave: () => void;
}

/** What opens once. */
interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

/** Keeps saves that run at once from meeting at one path. They are numbered from 0 on, and begin in that order. */
export class SaveOrder {
  readonly #passed = new Map<number, Gate>();
  readonly #atPath = new Map<string, Gate>();

  /**
   * Works out the path of save number `index` once every earlier save has its own or needs none, and waits while an earlier
   * one writes to the same path.
   */
  async enter(index: number, pathOf: () => Promise<string>): Promise<PlaceInOrder> {
    if (index > 0) await this.#gateOf(index - 1).opened;
    const path = await pathOf();
    const before = this.#atPath.get(path);
    const gate = createGate();
    this.#atPath.set(path, gate);
    this.#gateOf(index).open();
    await before?.opened;
    const leave = (): void => {
      if (this.#atPath.get(path) === gate) this.#atPath.delete(path);
      gate.open();
    };
    return { path, leave };
  }

  /** Save number `index` needs no path any more. Idempotent. */
  pass(index: number): void {
    this.#gateOf(index).open();
  }

  #gateOf(index: number): Gate {
    let gate = this.#passed.get(index);
    if (!gate) this.#passed.set(index, (gate = createGate()));
    return gate;
  }
}

function createGate(): Gate {
  let open: (() => void) | undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open?.() };
}

/** Work on numbered things, several at once. */
interface OrderedWork<T> {
  readonly count: number;
  /** Maximum that run at once. */
  readonly jobs: number;
  readonly signal: AbortSignal;
  /** Called in order of the numbers. `signal` ends it when an earlier one has failed. */
  run(index: number, signal: AbortSignal): Promise<T>;
  /** Called for each result, one after the other, in order of the numbers. */
  tell(result: T, index: number): Promise<void>;
}

/**
 * Runs work several at a time with the outcome that it has one after the other: everything before the first that fails
 * is done and told, and that fault is thrown. Later work is ended; what was done there by then is also told.
 */
export async function runInOrder<T>(work: OrderedWork<T>): Promise<void> {
  const { jobs, signal } = work;
  const count: number = work.count;
  const results = new Map<number, { readonly result: T }>();
  const running = new Map<number, AbortController>();
  let started = 0;
  let toldCount = 0;
  let telling: Promise<void> = Promise.resolve();
  let failedAt = count;
  let fault: unknown;

  async function tellFrom(first: number): Promise<void> {
    for (toldCount = first; toldCount < count; toldCount += 1) {
      const done = results.get(toldCount);
      if (!done) return;
      results.delete(toldCount);
      await work.tell(done.result, toldCount);
    }
  }

  function fail(index: number, error: unknown): void {
    if (index >= failedAt) return;
    failedAt = index;
    fault = error;
    for (const [other, stop] of running) if (other > index) stop.abort(error);
  }

  async function runOne(index: number): Promise<void> {
    const stop = new AbortController();
    running.set(index, stop);
    try {
      signal.throwIfAborted();
      const result = await work.run(index, stop.signal);
      results.set(index, { result });
      telling = telling.then(() => tellFrom(toldCount));
      await telling;
    } catch (error) {
      fail(index, error);
    } finally {
      running.delete(index);
    }
  }

  async function runNext(): Promise<void> {
    // whatever comes before the one that failed has started
    // oxlint-disable-next-line no-unmodified-loop-condition -- fail modifies it
    while (started < count && failedAt === count) await runOne(started++);
  }

  const removeListener = onAbort(signal, () => {
    for (const stop of running.values()) stop.abort(signal.reason);
  });
  try {
    await Promise.all(Array.from({ length: Math.min(jobs, count) }, runNext));
  } finally {
    removeListener();
  }
  if (failedAt === count) return;
  for (const index of [...results.keys()].toSorted((a, b) => a - b)) await tellFrom(index);
  throw fault;
}
