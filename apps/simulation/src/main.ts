// Runs seeds of the simulation:   npm run simulate -- [--profile NAME] [--runs N] [--seed S]
import { parseArgs } from "node:util";
import { loadProduct } from "./process/product-code.ts";
import { profiles } from "./profiles/index.ts";
import { findMutant } from "./run/gate.ts";
import type { Profile } from "./run/profile.ts";
import { shrink } from "./run/shrink.ts";
import { type Outcome, simulate } from "./run/simulate.ts";

const usage = `npm run simulate -- [options]
  --profile NAME   one profile; all if it is left out
  --runs N         seeds of each profile (default 20)
  --seed S         the first of them (default 1)
  --hours H        go on with new seeds for so long, profile after profile
  --mutants        see whether each mutant of the profiles is found
  --mutant NAME    run with one mutant
  --log            print all lines of the log, not only the story
  --hash           print a hash of the log of each seed
  --list           name the profiles and their mutants`;

const { values: options } = parseArgs({
  options: {
    profile: { type: "string" },
    runs: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    hours: { type: "string" },
    mutants: { type: "boolean", default: false },
    mutant: { type: "string" },
    log: { type: "boolean", default: false },
    hash: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const chosen = profiles.filter(
  ({ name }) => options.profile === undefined || name === options.profile,
);
if (options.help) console.log(usage);
else if (options.list) list();
else if (chosen.length === 0) fail(`there is no profile ${options.profile}; see --list`);
else if (options.mutants) await checkMutants();
else await runSeeds();

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}

function list(): void {
  for (const { name, summary, mutants } of chosen) {
    console.log(`${name}: ${summary}`);
    for (const mutant of mutants) console.log(`  ${mutant.name}`);
  }
}

async function checkMutants(): Promise<void> {
  for (const profile of chosen)
    for (const mutant of profile.mutants) {
      const found = await findMutant(profile, mutant);
      const what = `${profile.name}: ${mutant.name}`;
      if (!found) fail(`${what}: NOT FOUND in ${mutant.runs} runs`);
      else
        console.log(
          `${what}: found by seed ${found.seed} of ${mutant.runs}, ${found.violations[0]!.property}`,
        );
    }
}

async function runSeeds(): Promise<void> {
  const { hours } = options;
  const runs = Number(options.runs);
  const endAt = hours === undefined ? 0 : performance.now() + Number(hours) * 3_600_000;
  let seed = Number(options.seed);
  do {
    for (const profile of chosen) await runProfile(profile, seed, runs);
    seed += runs;
  } while (performance.now() < endAt);
}

async function runProfile(profile: Profile, first: number, runs: number): Promise<void> {
  const mutant = profile.mutants.find(({ name }) => name === options.mutant);
  if (options.mutant !== undefined && !mutant)
    return fail(`${profile.name} has no mutant ${options.mutant}`);
  const code = await loadProduct([...profile.edits, ...(mutant?.edits ?? [])]);
  const begunAt = performance.now();
  let virtualMs = 0;
  let failing = 0;
  for (let seed = first; seed < first + runs; seed++) {
    const outcome = await simulate(profile, code, seed, { keepsLines: options.log });
    virtualMs += outcome.virtualMs;
    if (options.hash) console.log(`${profile.name} ${seed} ${outcome.hash}`);
    if (options.log) console.log(outcome.lines.join("\n"));
    if (outcome.violations.length === 0) continue;
    failing += 1;
    fail(storyOf(profile, await shrink(profile, code, outcome)));
  }
  const seconds = (performance.now() - begunAt) / 1_000;
  if (!options.hash)
    console.log(
      `${profile.name}: ${runs} runs, ${failing} failing, ${Math.round(virtualMs / 60_000)} simulated minutes in ${seconds.toFixed(0)} s`,
    );
  return undefined;
}

/** False for a line that the one after it says too. */
function isNews(line: string): boolean {
  return !line.includes("fault: does@");
}

/** What a reader needs to see why a seed fails, and how to see it again. */
function storyOf({ name }: Profile, { seed, story, violations }: Outcome): string {
  const first = violations[0]!;
  const text = [
    ...new Set(violations.map((violation) => `${violation.property}: ${violation.text}`)),
  ];
  const until = story.findIndex((line) => line.includes(`VIOLATION ${first.property}`));
  const again = options.mutant === undefined ? "" : ` --mutant ${JSON.stringify(options.mutant)}`;
  return [
    `\n${name}, seed ${seed}: the shortest story`,
    ...story.slice(0, until + 1).filter(isNews),
    "",
    ...text,
    `Again: npm run simulate -- --profile ${name} --seed ${seed} --runs 1${again}`,
  ].join("\n");
}
