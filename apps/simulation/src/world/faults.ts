import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** Probability of each kind of fault, from 0 to 1. A kind that is left out does not happen. */
export type FaultRates = Readonly<Record<string, number>>;

/**
 * Decides which faults happen. Each decision has a name and its own random numbers, so that a fault that is left out
 * changes no other decision: a failing run can be shrunk.
 */
export class Faults {
  readonly #world: World;
  readonly #left: ReadonlySet<string>;
  readonly #places: Map<string, number> = new Map();
  #rates: FaultRates = {};
  #isCalm = false;
  /** Names of what happened, in order. */
  readonly happened: string[] = [];

  /** `left` has the names of faults that are left out. */
  constructor(world: World, left: ReadonlySet<string>) {
    this.#world = world;
    this.#left = left;
  }

  use(rates: FaultRates): void {
    this.#rates = rates;
  }

  /** From now on, everything works. */
  calm(): void {
    this.#isCalm = true;
  }

  get isCalm(): boolean {
    return this.#isCalm;
  }

  /** Decides about a fault of a kind at a place. Gives random numbers for its details if it happens. */
  strike(kind: string, place: string): Random | undefined {
    const rate = this.#rates[kind] ?? 0;
    if (rate === 0 || this.#isCalm) return undefined;
    const name = this.#nameOf(kind, place);
    const random = this.#world.random(name);
    return random.chance(rate) && this.#happens(name) ? random : undefined;
  }

  /** Whether something that the profile planned happens, such as a kill. */
  planned(kind: string, place: string): boolean {
    return !this.#isCalm && this.#happens(this.#nameOf(kind, place));
  }

  #happens(name: string): boolean {
    if (this.#left.has(name)) return false;
    this.happened.push(name);
    this.#world.count(name.slice(0, name.indexOf("@")));
    this.#world.tell(`fault: ${name}`);
    return true;
  }

  #nameOf(kind: string, place: string): string {
    const name = `${kind}@${place}`;
    const count = (this.#places.get(name) ?? 0) + 1;
    this.#places.set(name, count);
    return count === 1 ? name : `${name}#${count}`;
  }
}
