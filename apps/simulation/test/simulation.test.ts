import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { Edits } from "../src/process/edits.ts";
import { loadProduct } from "../src/process/product-code.ts";
import { profiles } from "../src/profiles/index.ts";
import { findMutant } from "../src/run/gate.ts";
import { shrink } from "../src/run/shrink.ts";
import { simulate } from "../src/run/simulate.ts";

const run = promisify(execFile);
const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));

describe.each(profiles)("$name", (profile) => {
  test("the same seed gives the same log, also in a process of its own", async () => {
    const code = await loadProduct(profile.edits);
    await simulate(profile, code, 2);
    const { hash } = await simulate(profile, code, 1);
    const args = ["--conditions=@sluice/source", "--import", "tsx", main];
    const seeds = ["--profile", profile.name, "--runs", "1", "--hash"];
    const { stdout } = await run(process.execPath, [...args, ...seeds]);
    expect(stdout).toBe(`${profile.name} 1 ${hash}\n`);
  });

  // one that is found late takes a hundred runs
  const patience = { tags: ["slow"], timeout: 240_000 };
  test.for(profile.mutants)("finds that $name", patience, async (mutant) => {
    expect(await findMutant(profile, mutant)).toBeDefined();
  });
});

test.for([
  // requests of a client that was killed kept the server's streams open
  ["saves-crashes", 110],
  // of two saves to one path, the second replaced the file before the result of the first was checked
  ["saves-crashes", 191],
  // an overtaken request was 400, after which its sender gave up
  ["uploads", 25],
  // a step whose end failed was ended twice
  ["uploads", 32],
  // the bytes of a file were removed although storage had made its record
  ["uploads", 40],
  // a clean-up that failed took back a step that was kept
  ["folders", 30],
  // a list that changed while a broken watch was away was not told
  ["listen", 24],
  // a call that a program had read whole counted as unsent, since others waited behind it
  ["bridge", 15],
] as const)("nothing fails any more with %s, seed %i", async ([name, seed]) => {
  const profile = profiles.find((each) => each.name === name)!;
  const { violations } = await simulate(profile, await loadProduct(profile.edits), seed);
  expect(violations).toEqual([]);
});

test("a failing seed is shrunk to what matters", { tags: "slow" }, async () => {
  const profile = profiles.find(({ name }) => name === "saves-versions")!;
  const mutant = profile.mutants.find(({ name }) => name.startsWith("a body that ends early"))!;
  const code = await loadProduct([...profile.edits, ...mutant.edits]);
  const failing = (await findMutant(profile, mutant))!;
  const shortest = await shrink(profile, code, failing);
  expect(shortest.violations[0]!.property).toBe(failing.violations[0]!.property);
  expect(shortest.happened.length).toBeLessThan(failing.happened.length / 2);
  expect(shortest.happened.length).toBeLessThanOrEqual(4);
});

describe("edits", () => {
  const edit = { file: "core/src/a.ts", from: "one", to: "two" };

  test("change the one place that they name", () => {
    const edits = new Edits([edit]);
    expect(edits.apply("/packages/core/src/a.ts", "one, three")).toBe("two, three");
    expect(edits.apply("/packages/core/src/b.ts", "one")).toBe("one");
    expect(() => edits.ensureUsed()).not.toThrow();
  });

  test.each(["", "one and one"])("throw for a text that does not have it once: %j", (text) => {
    expect(() => new Edits([edit]).apply("/packages/core/src/a.ts", text)).toThrow(
      "must occur once",
    );
  });

  test("throw for a file that is not bundled", () => {
    expect(() => new Edits([edit]).ensureUsed()).toThrow("core/src/a.ts is not bundled");
  });
});
