import { loadProduct } from "../process/product-code.ts";
import type { Mutant } from "../process/edits.ts";
import type { Profile } from "./profile.ts";
import { type Outcome, simulate } from "./simulate.ts";

/** Looks for a mutant with the seeds of its profile, from 1 on. Gives the run that finds it, if one does. */
export async function findMutant(profile: Profile, mutant: Mutant): Promise<Outcome | undefined> {
  const code = await loadProduct([...profile.edits, ...mutant.edits]);
  for (let seed = 1; seed <= mutant.runs; seed++) {
    const outcome = await simulate(profile, code, seed);
    if (outcome.violations.length > 0) return outcome;
  }
  return undefined;
}
