import type { ProductCode } from "../process/product-code.ts";
import type { Profile } from "./profile.ts";
import { type Outcome, simulate } from "./simulate.ts";

/** Runs that one failing seed may cost. */
const maxTries = 200;

/**
 * Looks for the shortest story of a failing seed: leaves out operations and faults, as many at once as possible, as long as the
 * first property that did not hold still does not.
 */
export async function shrink(
  profile: Profile,
  code: ProductCode,
  failing: Outcome,
): Promise<Outcome> {
  const property = failing.violations[0]!.property;
  let shortest = failing;
  let left: ReadonlySet<string> = new Set();
  let tries = 0;
  for (let size = Math.ceil(failing.happened.length / 2); size >= 1; size = Math.floor(size / 2))
    for (let at = 0; at < shortest.happened.length && tries < maxTries;) {
      tries += 1;
      const without = new Set([...left, ...shortest.happened.slice(at, at + size)]);
      const outcome = await simulate(profile, code, failing.seed, { left: without });
      if (outcome.violations.some((violation) => violation.property === property)) {
        left = without;
        shortest = outcome;
      } else at += size;
    }
  return shortest;
}
