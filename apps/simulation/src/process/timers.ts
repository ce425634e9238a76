import type { Cancel, World } from "../world/world.ts";
import type { Life } from "./machine.ts";

/** Timers of one life of a process. */
export interface Timers {
  readonly setTimeout: (
    happen: (...args: unknown[]) => void,
    ms?: number,
    ...args: unknown[]
  ) => Timer;
  readonly setInterval: Timers["setTimeout"];
  readonly setImmediate: (happen: (...args: unknown[]) => void, ...args: unknown[]) => Timer;
  readonly clear: (timer: unknown) => void;
  /** Timers that keep the process alive, set at least this long ago. */
  older(ms: number): number;
}

/** A timer as Node has it. */
class Timer {
  readonly setAt: number;
  readonly #world: World;
  readonly #start: () => Cancel;
  readonly #active: Set<Timer>;
  #cancel: Cancel;
  #isReferenced = true;

  constructor(world: World, active: Set<Timer>, start: (timer: Timer) => Cancel) {
    this.#world = world;
    this.setAt = world.now;
    this.#active = active;
    this.#start = () => start(this);
    active.add(this);
    this.#cancel = this.#start();
  }

  stop(): void {
    this.#active.delete(this);
    this.#cancel();
  }

  /** It has fired, and fires once more. */
  again(): void {
    this.#cancel = this.#start();
  }

  refresh(): this {
    this.#cancel();
    this.#active.add(this);
    this.again();
    return this;
  }

  ref(): this {
    this.#isReferenced = true;
    return this;
  }

  unref(): this {
    this.#isReferenced = false;
    return this;
  }

  hasRef(): boolean {
    return this.#isReferenced;
  }

  close(): void {
    this.stop();
  }

  isOlder(ms: number): boolean {
    return this.#world.now - this.setAt >= ms;
  }

  [Symbol.toPrimitive](): number {
    return 0;
  }

  [Symbol.dispose](): void {
    this.stop();
  }
}

/** As Node reads a delay. */
function delay(ms: unknown): number {
  return Math.max(1, Number(ms) || 1);
}

export function createTimers(world: World, life: Life): Timers {
  const active = new Set<Timer>();
  const set = (happen: () => void, ms: number, repeats: boolean): Timer =>
    new Timer(world, active, (timer) =>
      world.after(
        ms,
        () => {
          if (repeats) timer.again();
          else timer.stop();
          happen();
        },
        life,
      ),
    );
  return {
    setTimeout: (happen, ms, ...args) => set(() => happen(...args), delay(ms), false),
    setInterval: (happen, ms, ...args) => set(() => happen(...args), delay(ms), true),
    setImmediate: (happen, ...args) => set(() => happen(...args), 0, false),
    clear(timer) {
      if (timer instanceof Timer) timer.stop();
    },
    older: (ms) => [...active].filter((timer) => timer.hasRef() && timer.isOlder(ms)).length,
  };
}
