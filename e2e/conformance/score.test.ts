import { expect, test } from "vitest";

type Scores = Map<string, { readonly passed: number; readonly failed: number }>;

const tool = new URL("../../tools/conformance.mjs", import.meta.url).href;
const { differences, scoresIn } = (await import(tool)) as {
  differences: (plain: Scores, attached: Scores) => string[];
  scoresIn: (output: string) => Scores;
};

const output = (last: string) => `noise: 9 passed, 9 failed

=== SUMMARY ===
✓ resources-list: 2 passed, 0 failed
✗ auth/metadata-default: 1 passed, 3 failed
${last}

Total: 5 passed, 3 failed
`;

test("the summary gives one score for each scenario and none for its total", () => {
  expect(scoresIn(output("✓ ping: 2 passed, 0 failed"))).toEqual(
    new Map([
      ["resources-list", { passed: 2, failed: 0 }],
      ["auth/metadata-default", { passed: 1, failed: 3 }],
      ["ping", { passed: 2, failed: 0 }],
    ]),
  );
});

test("a scenario that scores worse, better or not at all is a difference", () => {
  const plain = scoresIn(output("✓ ping: 2 passed, 0 failed"));
  expect(differences(plain, plain)).toEqual([]);
  expect(differences(plain, scoresIn(output("✗ ping: 1 passed, 1 failed")))).toEqual([
    "ping: 2 passed, 0 failed without Sluice, 1 passed, 1 failed with it",
  ]);
  expect(differences(plain, scoresIn(output("")))).toEqual([
    "ping: 2 passed, 0 failed without Sluice, did not run with it",
  ]);
});
