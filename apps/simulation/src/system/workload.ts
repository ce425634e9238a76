import type { Run } from "../run/profile.ts";
import { KilledError, type Machine } from "../process/machine.ts";
import { stackOf } from "../world/world.ts";

/** Longest simulated time of one operation: its own deadlines and retries are shorter. */
const maxOperationMs = 2_400_000;

/** Operations of clients, and when all of them are over. */
export class Workload {
  readonly #run: Run;
  #pending = 0;

  constructor(run: Run) {
    this.#run = run;
  }

  isOver(): boolean {
    return this.#pending === 0;
  }

  /** Begins an operation after a time. Its name is unique; `work` must handle every error that may come. */
  begin(name: string, delayMs: number, work: () => Promise<void>): void {
    const { world, faults } = this.#run;
    this.#pending += 1;
    world.after(delayMs, () => {
      if (!faults.planned("does", name)) {
        this.#pending -= 1;
        return;
      }
      const begunAt = world.now;
      void this.#finish(name, work).finally(() => {
        this.#pending -= 1;
        const tookMs = Math.round(world.now - begunAt);
        if (tookMs > maxOperationMs) world.violate("SLOW", `${name} took ${tookMs} ms`);
      });
    });
  }

  async #finish(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#run.world.violate("WORKLOAD", `${name}: ${stackOf(error)}`);
    }
  }
}

/** Runs an operation of the product, and says how it ended: `ok`, a code of `SluiceError`, or `killed`. */
export async function attempt(
  { world }: Run,
  name: string,
  machine: Machine,
  work: () => Promise<void>,
): Promise<string> {
  const { life } = machine;
  if (!life) return "killed";
  let result = "ok";
  try {
    await life.untilEnd(work());
  } catch (error) {
    world.log(`${name}: ${String(error).slice(0, 300)}`);
    if (error instanceof KilledError) result = "killed";
    else if (life.product.SluiceError.is(error) && error.code !== "internal") result = error.code;
    else {
      result = "another error";
      world.violate("ERROR", `${name}: ${stackOf(error)}`);
    }
  }
  world.count(`${name.split(" ")[1] ?? name}: ${result}`);
  world.tell(`${name}: ${result}`);
  return result;
}
