import { createRandom, type Random } from "./random.ts";

/** What an event belongs to: once it has ended, its events do not happen any more. */
export interface Owner {
  readonly isOver: boolean;
  /** Called before each event of this owner. */
  enter(): void;
}

/** A property that did not hold. */
export interface Violation {
  /** Short and the same in every run, such as `SAVE`: shrinking keeps the violations of a property. */
  readonly property: string;
  readonly text: string;
  /** Simulated milliseconds. */
  readonly at: number;
}

/** A call that is to come; a function takes it back. */
export type Cancel = () => void;

interface Event {
  readonly at: number;
  readonly order: number;
  readonly owner: Owner | undefined;
  readonly happen: () => void;
  isCancelled: boolean;
}

/** Unix milliseconds at which every simulation begins. */
export const epochMs: number = Date.UTC(2026, 0, 1);

/** Events after which a run is taken for one without an end. */
const maxEvents = 400_000;

/**
 * Virtual time, and everything that is to happen in it, one event after the other: between two events all microtasks
 * are run. It also keeps the log, of which only a hash is kept unless the lines are wanted.
 */
export class World {
  readonly seed: string;
  readonly violations: Violation[] = [];
  /** How often what happened, over the whole run. */
  readonly counts: Map<string, number> = new Map();
  /** What a reader is told of the run. */
  readonly story: string[] = [];
  readonly lines: string[] | undefined;
  #now = 0;
  #order = 0;
  #events = 0;
  #queue: Event[] = [];
  #hash = [0x811c9dc5, 0x1b873593] as [number, number];

  constructor(seed: string, { keepsLines = false }: { readonly keepsLines?: boolean } = {}) {
    this.seed = seed;
    if (keepsLines) this.lines = [];
  }

  /** Simulated milliseconds since the beginning. */
  get now(): number {
    return this.#now;
  }

  get events(): number {
    return this.#events;
  }

  /** Of the whole log: two runs with the same one did the same. */
  get hash(): string {
    return this.#hash.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  /** Random numbers of this run for one purpose. Other purposes do not change them. */
  random(purpose: string): Random {
    return createRandom(`${this.seed} ${purpose}`);
  }

  /** Has something happen after a time. */
  after(delayMs: number, happen: () => void, owner?: Owner): Cancel {
    const at = this.#now + Math.max(0, delayMs);
    const event = { at, order: this.#order++, owner, happen, isCancelled: false };
    this.#push(event);
    return () => void (event.isCancelled = true);
  }

  /** Resolves after a time, and never if its owner is over by then. */
  sleep(delayMs: number, owner?: Owner): Promise<void> {
    return new Promise((resolve) => this.after(delayMs, resolve, owner));
  }

  log(text: string): void {
    const line = `${this.#now.toFixed(3)} ${text}`;
    this.lines?.push(line);
    let [first, second] = this.#hash;
    for (let at = 0; at < line.length; at++) {
      first = Math.imul(first ^ line.charCodeAt(at), 16_777_619);
      second = Math.imul(second ^ line.charCodeAt(at), 2_246_822_507);
    }
    this.#hash = [first, second ^ (second >>> 13)];
  }

  /** Logs what belongs into the story. */
  tell(text: string): void {
    this.log(text);
    this.story.push(`${(this.#now / 1_000).toFixed(3).padStart(10)} s  ${text}`);
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  violate(property: string, text: string): void {
    this.violations.push({ property, text, at: this.#now });
    this.tell(`VIOLATION ${property}: ${text}`);
  }

  /**
   * Runs events until `isDone()`, or until none is left before `horizonMs`. Only to be called from a macrotask: in a
   * microtask, others are not run.
   */
  run(isDone: () => boolean, horizonMs: number): "done" | "late" | "endless" | "stuck" {
    drainMicrotasks();
    while (!isDone()) {
      const event = this.#queue[0];
      if (!event) return "stuck";
      if (event.at > horizonMs) return "late";
      this.#pop();
      if (event.isCancelled || event.owner?.isOver) continue;
      if (++this.#events > maxEvents) return "endless";
      this.#now = event.at;
      event.owner?.enter();
      try {
        event.happen();
      } catch (error) {
        this.violate("UNCAUGHT", stackOf(error));
      }
      drainMicrotasks();
    }
    return "done";
  }

  #push(event: Event): void {
    const heap = this.#queue;
    heap.push(event);
    for (let at = heap.length - 1; at > 0;) {
      const parent = (at - 1) >> 1;
      if (isBefore(heap[parent]!, heap[at]!)) break;
      [heap[parent], heap[at]] = [heap[at]!, heap[parent]!];
      at = parent;
    }
  }

  #pop(): void {
    const heap = this.#queue;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    heap[0] = last;
    for (let at = 0; ;) {
      let child = 2 * at + 1;
      if (child >= heap.length) return;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (isBefore(heap[at]!, heap[child]!)) return;
      [heap[at], heap[child]] = [heap[child]!, heap[at]!];
      at = child;
    }
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** An internal of Node, the same in all of its versions: no public call runs microtasks before the caller ends. */
function drainMicrotasks(): void {
  // oxlint-disable-next-line no-underscore-dangle -- its name in Node
  (process as unknown as { _tickCallback(): void })._tickCallback();
}

export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
