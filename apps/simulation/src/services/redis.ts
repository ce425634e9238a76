import { createHash } from "node:crypto";
import type { Life } from "../process/machine.ts";
import type { Faults } from "../world/faults.ts";
import type { Random } from "../world/random.ts";
import { epochMs, type World } from "../world/world.ts";
import { Scripts } from "./lua.ts";
import { RedisData, type Reply } from "./redis-data.ts";

/** A Redis server and the network to it. Its scripts run in a Lua machine, each as one step. */
export class Redis {
  readonly #world: World;
  readonly #faults: Faults;
  readonly #random: Random;
  readonly #data: RedisData;
  readonly #scripts: Scripts;
  readonly #texts: Map<string, string> = new Map();
  readonly #isDurable: boolean;
  #startedAt: number;
  #isUp = true;
  /** Machines that the network has cut off from it. */
  readonly cutOff: Set<string> = new Set();

  /** `isDurable`: it forgets nothing when it starts again. */
  constructor(world: World, faults: Faults, isDurable: boolean) {
    this.#world = world;
    this.#faults = faults;
    this.#isDurable = isDurable;
    this.#random = world.random("redis");
    // it has run for a while
    this.#startedAt = world.now - 600_000;
    this.#data = new RedisData(() => world.now);
    this.#scripts = new Scripts((command, args) => this.#run(command, args));
  }

  /** A client of it, as the product takes one. */
  clientOf(life: Life): { call(command: string, ...args: string[]): Promise<unknown> } {
    return { call: (command, ...args) => this.#send(life, command.toUpperCase(), args) };
  }

  /** Members of sorted sets whose scores are times to come. */
  membersOf(isWanted: (key: string) => boolean): string[] {
    const now = epochMs + this.#world.now;
    return this.#data
      .keys()
      .filter(isWanted)
      .flatMap((key) => this.#data.run("ZRANGEBYSCORE", [key, String(now), "+inf"]) as string[]);
  }

  stop(): void {
    this.#isUp = false;
  }

  /** Starts it again. One that is not durable has lost keys. */
  start(random: Random): void {
    this.#isUp = true;
    this.#startedAt = this.#world.now;
    this.#texts.clear();
    if (this.#isDurable) return;
    const lost = random.pick([0, 0.5, 1]);
    for (const key of this.#data.keys()) if (random.chance(lost)) this.#data.forget(key);
    this.#world.tell(`redis runs again, with ${this.#data.keys().length} keys`);
  }

  #send(life: Life, command: string, args: readonly string[]): Promise<Reply> {
    const { name } = life;
    return new Promise((resolve, reject) => {
      const later = (happen: () => void): void => {
        const slow = this.#faults.strike("slow redis", name);
        this.#world.after(slow ? slow.int(500, 4_000) : this.#random.next() * 2, happen, life);
      };
      const breakOff = (): void => later(() => reject(new Error("ECONNRESET")));
      later(() => {
        if (this.cutOff.has(life.machine.name) && !this.#faults.isCalm) return;
        if (!this.#isUp || this.#faults.strike("redis request lost", name)) return breakOff();
        let reply: Reply;
        try {
          reply = this.#run(command, args);
        } catch (error) {
          return later(() => reject(error));
        }
        this.#world.log(`${name} redis ${args[2] ?? ""} ${JSON.stringify(reply).slice(0, 60)}`);
        if (this.#faults.strike("redis reply lost", name)) return breakOff();
        later(() => resolve(reply));
      });
    });
  }

  #run(command: string, args: readonly string[]): Reply {
    switch (command) {
      case "EVAL":
      case "EVALSHA":
        return this.#evaluate(command, args);
      case "TIME": {
        const ms = Math.floor(epochMs + this.#world.now);
        return [String(Math.floor(ms / 1_000)), String((ms % 1_000) * 1_000)];
      }
      case "INFO": {
        const seconds = Math.floor((this.#world.now - this.#startedAt) / 1_000);
        return `uptime_in_seconds:${seconds}\r\nmaxmemory_policy:noeviction\r\n`;
      }
      default:
        return this.#data.run(command, args);
    }
  }

  #evaluate(command: string, [first = "", count, ...rest]: readonly string[]): Reply {
    const name = command === "EVAL" ? createHash("sha1").update(first).digest("hex") : first;
    if (command === "EVAL") this.#texts.set(name, first);
    const text = this.#texts.get(name);
    if (text === undefined) throw new Error("NOSCRIPT No matching script");
    const keys = rest.slice(0, Number(count));
    try {
      return this.#scripts.run(name, text, keys, rest.slice(Number(count)));
    } catch (error) {
      this.#world.violate("SCRIPT", String(error));
      throw error;
    }
  }
}
