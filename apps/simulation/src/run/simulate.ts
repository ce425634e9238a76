import type { ProductCode } from "../process/product-code.ts";
import { Faults } from "../world/faults.ts";
import { stackOf, type Violation, World } from "../world/world.ts";
import type { Profile } from "./profile.ts";

/** What came of a run. */
export interface Outcome {
  readonly seed: number;
  readonly violations: readonly Violation[];
  /** Names of the faults and operations that happened; each can be left out. */
  readonly happened: readonly string[];
  readonly story: readonly string[];
  readonly counts: ReadonlyMap<string, number>;
  /** The same for the same seed and the same code, on every machine. */
  readonly hash: string;
  readonly virtualMs: number;
  readonly events: number;
  /** All lines of the log, if they were wanted. */
  readonly lines: readonly string[];
}

export interface SimulateOptions {
  /** Names of faults and operations that do not happen. */
  readonly left?: ReadonlySet<string>;
  readonly keepsLines?: boolean;
}

const hourMs = 3_600_000;
const idleMs = 900_000;

/** Runs one seed of a profile, from its beginning to its idle end. */
export async function simulate(
  profile: Profile,
  code: ProductCode,
  seed: number,
  { left = new Set(), keepsLines = false }: SimulateOptions = {},
): Promise<Outcome> {
  const world = new World(`${profile.name} ${seed}`, { keepsLines });
  const faults = new Faults(world, left);
  await inMacrotask(() => withRejections(world, () => runPhases(profile, { world, faults, code })));
  const { violations, story, counts, hash, now, events, lines = [] } = world;
  const { happened } = faults;
  return { seed, violations, happened, story, counts, hash, virtualMs: now, events, lines };
}

/** A world runs microtasks itself, which is impossible in one. */
export function inMacrotask(work: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        work();
        resolve();
      } catch (error) {
        reject(error);
      }
    });
  });
}

function runPhases(profile: Profile, run: Parameters<Profile["begin"]>[0]): void {
  const { world, faults } = run;
  const scenario = profile.begin(run);
  const storm = world.run(() => scenario.isOver(), 4 * hourMs);
  if (storm !== "done") world.violate("HANG", `the workload does not end: ${storm}`);
  faults.calm();
  world.tell("from now on, everything works");
  let isDone = false;
  scenario.calm().then(
    () => void (isDone = true),
    (error: unknown) => {
      isDone = true;
      world.violate("CALM", stackOf(error));
    },
  );
  const calm = world.run(() => isDone, world.now + 2 * hourMs);
  if (calm !== "done") world.violate("CALM", `what was begun is not finished: ${calm}`);
  const end = world.now + idleMs;
  // keeps the world from ending early when nothing is left to do
  world.after(idleMs, () => {});
  world.run(() => world.now >= end, end);
  scenario.idle();
}

/** Counts rejections that nobody handles as violations, and keeps them from others who listen. */
function withRejections(world: World, work: () => void): void {
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => world.violate("UNHANDLED", stackOf(error)));
  try {
    work();
  } finally {
    process.removeAllListeners("unhandledRejection");
    for (const other of others) process.on("unhandledRejection", other);
  }
}
