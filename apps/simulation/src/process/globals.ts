import { createRandom, type Random } from "../world/random.ts";
import { epochMs, type World } from "../world/world.ts";
import { createTimers, type Timers } from "./timers.ts";
import { completeGlobals, type Globals } from "./product-code.ts";
import type { Life } from "./machine.ts";

/** What a process has for itself. */
export interface Surroundings {
  readonly globals: Globals;
  readonly timers: Timers;
  readonly random: Random;
}

type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** The globals of one life of a process: its clock, its timers, its random numbers and its network. */
export function createSurroundings(
  world: World,
  life: Life,
  fetch: Fetch,
  modules: (id: string) => unknown,
): Surroundings {
  const random = createRandom(`${world.seed} ${life.name}`);
  const timers = createTimers(world, life);
  const bornAt = world.now;
  const sinceBirth = (): number => world.now - bornAt;
  const globals = completeGlobals({
    Date: dateOf(life),
    performance: { now: sinceBirth, timeOrigin: epochMs + bornAt, mark() {}, measure() {} },
    setTimeout: timers.setTimeout,
    clearTimeout: timers.clear,
    setInterval: timers.setInterval,
    clearInterval: timers.clear,
    setImmediate: timers.setImmediate,
    clearImmediate: timers.clear,
    crypto: webCrypto(random),
    Math: withMembers(Math, { random: () => random.next() }),
    AbortSignal: abortSignals(world, life),
    fetch,
    process: processOf(life, sinceBirth, modules),
    console: quietConsole(world, life),
  });
  return { globals, timers, random };
}

function dateOf(life: Life): DateConstructor {
  return class extends Date {
    constructor(...args: []) {
      super(...((args.length === 0 ? [life.wallMs()] : args) as []));
    }
    static override now(): number {
      return life.wallMs();
    }
  } as DateConstructor;
}

interface WebCrypto {
  getRandomValues<Target extends ArrayBufferView>(target: Target): Target;
  randomUUID(): string;
  readonly subtle: never;
}

/** Web Crypto with random numbers of the seed. All else that is asked of it says so. */
export function webCrypto(random: Random): WebCrypto {
  return {
    getRandomValues<Target extends ArrayBufferView>(target: Target): Target {
      random.fillBytes(new Uint8Array(target.buffer, target.byteOffset, target.byteLength));
      return target;
    },
    randomUUID: () => uuidOf(random),
    get subtle(): never {
      throw new Error("simulation: crypto.subtle works on threads, which are not simulated");
    },
  };
}

export function uuidOf(random: Random): string {
  const bytes = random.fillBytes(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 15) | 64;
  bytes[8] = (bytes[8]! & 63) | 128;
  const hex = Buffer.from(bytes).toString("hex");
  return [0, 8, 12, 16, 20].map((from, index, all) => hex.slice(from, all[index + 1])).join("-");
}

/** `AbortSignal` whose timeouts are events of the world. */
function abortSignals(world: World, life: Life): object {
  function timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    const reason = new DOMException("The operation was aborted due to timeout", "TimeoutError");
    world.after(ms, () => controller.abort(reason), life);
    return controller.signal;
  }
  return new Proxy(AbortSignal, {
    get(own, member) {
      if (member === "timeout") return timeout;
      const value: unknown = Reflect.get(own, member);
      return typeof value === "function" && member !== "prototype" ? value.bind(own) : value;
    },
  });
}

/** The parts of `process` that the product asks for. */
function processOf(life: Life, sinceBirth: () => number, modules: (id: string) => unknown): object {
  const stream = { isTTY: false, write: () => true };
  const nanoseconds = (): bigint => BigInt(Math.round(life.machine.world.now * 1e6));
  const simulated = {
    pid: life.pid,
    env: {},
    stdout: { ...stream, fd: 1 },
    stderr: { ...stream, fd: 2 },
    uptime: () => sinceBirth() / 1_000,
    hrtime: Object.assign(() => [0, 0], { bigint: nanoseconds }),
    getuid: () => 1000,
    getBuiltinModule: modules,
    kill(pid: number) {
      if (life.machine.isRunning(pid)) return true;
      throw Object.assign(new Error("kill ESRCH"), { code: "ESRCH" });
    },
    on: () => simulated,
    once: () => simulated,
    off: () => simulated,
  };
  const { version, versions, arch } = process;
  const nextTick = process.nextTick.bind(process);
  return Object.assign(simulated, {
    version,
    versions,
    platform: "linux",
    arch,
    nextTick,
    execArgv: [],
  });
}

function quietConsole(world: World, life: Life): object {
  const note = (...args: unknown[]): void =>
    world.log(`${life.name} says ${String(args[0]).slice(0, 200)}`);
  return { ...console, log: note, info: note, warn: note, error: note };
}

/** An object with other values for some members of one whose members cannot be enumerated. */
function withMembers(object: object, members: object): object {
  return Object.create(object, {
    ...Object.getOwnPropertyDescriptors(object),
    ...Object.getOwnPropertyDescriptors(members),
  }) as object;
}
