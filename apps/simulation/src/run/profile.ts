import type { Edit, Mutant } from "../process/edits.ts";
import type { ProductCode } from "../process/product-code.ts";
import type { Faults } from "../world/faults.ts";
import type { World } from "../world/world.ts";

/** One run: a seed, its world and the faults that happen in it. */
export interface Run {
  readonly world: World;
  readonly faults: Faults;
  readonly code: ProductCode;
}

/** What a run of a profile does, in three phases. */
export interface Scenario {
  /** True once the workload is over. Until then, faults happen. */
  isOver(): boolean;
  /** Everything works from now on. Looks at what was left, and must be able to finish what was begun. */
  calm(): Promise<void>;
  /** Called after 15 idle minutes: nothing may be open. */
  idle(): void;
}

/** One focus of the simulation: a workload, its faults and what must hold. */
export interface Profile {
  readonly name: string;
  /** One line for `--list`. */
  readonly summary: string;
  /** Brings thresholds of the product near each other, so that small files reach them. */
  readonly edits: readonly Edit[];
  /** Each must be found, or the profile looks at nothing. */
  readonly mutants: readonly Mutant[];
  /** Builds the system and begins the workload. */
  begin(run: Run): Scenario;
}
