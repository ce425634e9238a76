import type { KeyRing, KeyState } from "@sluice/core";
import type { Life, Machine } from "../process/machine.ts";
import { createRandom } from "../world/random.ts";
import type { Scene } from "./scene.ts";

/** The keys of a server in each step of a rotation, as createKeyRing says. */
const steps: readonly (readonly (readonly [kid: string, state: KeyState])[])[] = [
  [["k1", "current"]],
  [
    ["k1", "current"],
    ["k2", "next"],
  ],
  [
    ["k1", "previous"],
    ["k2", "current"],
  ],
  [["k2", "current"]],
];

/** The key rings of servers, which take each step of a rotation one after the other, and never two steps apart. */
export class Rotation {
  /** When each machine took each step. */
  readonly #times: Map<Machine, number[]> = new Map();
  readonly #rings: Map<Life, KeyRing> = new Map();

  /** The ring of a process that begins. */
  ringFor(life: Life): KeyRing {
    const ring = life.product.createKeyRing(this.#textFor(life));
    this.#rings.set(life, ring);
    return ring;
  }

  /** Rotates the keys of all servers: a step every so many milliseconds, at each server at a time of its own. */
  async run({ world, cluster, random }: Scene, everyMs: number): Promise<void> {
    for (let step = 1; step < steps.length; step++) {
      for (const machine of cluster.machines)
        world.after(random.next() * everyMs * 0.9, () => this.#take(machine, step));
      await world.sleep(everyMs);
      world.log(`rotation: step ${step} is taken`);
    }
  }

  /** Whether a process had a key at a time, in simulated milliseconds. */
  had({ machine }: Life, kid: string, at: number): boolean {
    const step = this.#taken(machine).findLastIndex((takenAt) => takenAt <= at);
    return steps[step]!.some(([name]) => name === kid);
  }

  /** Name of the key that a process seals with. */
  current(life: Life): string {
    return this.#rings.get(life)!.current;
  }

  #taken(machine: Machine): number[] {
    const times = this.#times.get(machine) ?? [0];
    this.#times.set(machine, times);
    return times;
  }

  #take(machine: Machine, step: number): void {
    this.#taken(machine)[step] = machine.world.now;
    machine.world.tell(`${machine.name} takes step ${step} of the rotation`);
    const { life } = machine;
    if (life) this.#rings.get(life)?.replace(this.#textFor(life));
  }

  #textFor({ machine, product }: Life): string {
    return steps[this.#taken(machine).length - 1]!.map(([kid, state]) => {
      const key = createRandom(`key ${kid}`).fillBytes(new Uint8Array(32));
      return product.formatKey({ kid, key, state });
    }).join(",");
  }
}
