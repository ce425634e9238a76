import { epochMs, type Owner, type World } from "../world/world.ts";
import type { Disk } from "../services/disk.ts";
import type { Programs } from "../services/programs.ts";
import { createSurroundings } from "./globals.ts";
import { createModules } from "./modules.ts";
import { enterProcess, type Globals, type Product, type ProductCode } from "./product-code.ts";
import type { Timers } from "./timers.ts";

type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** What a machine is made of. */
export interface MachineOptions {
  readonly code: ProductCode;
  /** How far its clock is ahead of the world's, in milliseconds. */
  readonly skewMs?: number;
  readonly disk?: Disk;
  /** What its processes can start. */
  readonly programs?: Programs;
  readonly fetch: (life: Life) => Fetch;
}

/** A place where the product runs, in one process after the other. */
export class Machine {
  readonly world: World;
  readonly name: string;
  readonly disk: Disk | undefined;
  readonly programs: Programs | undefined;
  skewMs: number;
  life: Life | undefined;
  readonly #options: MachineOptions;
  readonly #running: Set<number>;
  #boots = 0;

  /** `running` has the ids of all processes that run on the same host. */
  constructor(world: World, name: string, running: Set<number>, options: MachineOptions) {
    this.world = world;
    this.name = name;
    this.skewMs = options.skewMs ?? 0;
    this.disk = options.disk;
    this.programs = options.programs;
    this.#options = options;
    this.#running = running;
  }

  boot(): Life {
    this.kill("replaced");
    this.#boots += 1;
    const pid = firstPid + this.#boots * 100 + this.#running.size;
    this.#running.add(pid);
    const { code, fetch } = this.#options;
    const life = new Life(this, `${this.name}.${this.#boots}`, pid);
    life.begin(code, fetch(life));
    this.life = life;
    this.world.log(`${life.name} runs`);
    return life;
  }

  kill(why: string): void {
    const { life } = this;
    if (!life) return;
    this.life = undefined;
    this.#running.delete(life.pid);
    this.world.log(`${life.name} is killed: ${why}`);
    life.end();
  }

  isRunning(pid: number): boolean {
    return this.#running.has(pid);
  }
}

const firstPid = 1_000;

/** One process: from a start to a kill. Nothing of it happens after that. */
export class Life implements Owner {
  readonly machine: Machine;
  readonly name: string;
  readonly pid: number;
  isOver = false;
  #globals: Globals | undefined;
  #timers: Timers | undefined;
  #product: Product | undefined;
  readonly #endings: Set<() => void> = new Set();

  constructor(machine: Machine, name: string, pid: number) {
    this.machine = machine;
    this.name = name;
    this.pid = pid;
  }

  begin(code: ProductCode, fetch: Fetch): void {
    const { world } = this.machine;
    let modules: ((id: string) => unknown) | undefined;
    const { globals, timers, random } = createSurroundings(world, this, fetch, (id) =>
      modules!(id),
    );
    modules = createModules(this, random, timers);
    this.#globals = globals;
    this.#timers = timers;
    this.enter();
    this.#product = code.evaluate(globals, modules);
  }

  get product(): Product {
    return this.#product!;
  }

  /** Unix milliseconds by its own clock. */
  wallMs(): number {
    const { world, skewMs } = this.machine;
    return Math.floor(epochMs + world.now + skewMs);
  }

  /** Timers that would keep it alive, set at least this long ago. */
  timersOlder(ms: number): number {
    return this.#timers!.older(ms);
  }

  enter(): void {
    enterProcess(this.#globals!);
  }

  /** Calls back when it is killed. The function that it gives takes that back. */
  onEnd(happen: () => void): () => void {
    this.#endings.add(happen);
    return () => void this.#endings.delete(happen);
  }

  end(): void {
    this.isOver = true;
    for (const happen of this.#endings) happen();
  }

  /** What `work` gives, unless the process is killed before. */
  untilEnd<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const forget = this.onEnd(() => reject(new KilledError(this.name)));
      work.finally(forget).then(resolve, reject);
    });
  }
}

/** The process that was to do something was killed. */
export class KilledError extends Error {
  constructor(name: string) {
    super(`${name} was killed`);
    this.name = "KilledError";
  }
}
