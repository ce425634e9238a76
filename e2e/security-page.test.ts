import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { checkSecurityPage, threatRowsIn, titlesIn } from "./security-page.ts";

const root = new URL("../", import.meta.url);
const read = (file: string): string | undefined => {
  const url = new URL(file, root);
  return existsSync(url) ? readFileSync(url, "utf8") : undefined;
};
const page = read("docs/security/threats.md")!;

test("each attack that the page lists is proved by a test that exists", () => {
  expect(threatRowsIn(page).length).toBeGreaterThan(40);
  expect(checkSecurityPage(page, read)).toEqual([]);
});

test("attacks are numbered without a gap, and SECURITY.md says how many there are", () => {
  const numbers = threatRowsIn(page).map(({ id }) => Number(id.slice(1)));
  expect(numbers).toEqual(numbers.map((_, n) => n + 1));
  expect(read("SECURITY.md")).toContain(`Each of the ${numbers.length} known attacks`);
});

test("a wrong title, a missing file, an empty cell and a second row are found", () => {
  const [first] = threatRowsIn(page);
  const { title, file } = first!.proofs[0]!;
  const proof = `[${title}](../../${file})`;
  expect(page).toContain(proof);
  const twins = {
    [`"${title}!", which`]: page.replace(proof, `[${title}!](../../${file})`),
    "packages/core/test/none.test.ts, which is no test file": page.replace(
      proof,
      `[${title}](../../packages/core/test/none.test.ts)`,
    ),
    "cites no test": page.replace(/^\| T1 .*$/m, "| T1 | an attack | a defence | |"),
    "is there twice": page.replace(/^(\| T1 .*)$/m, "$1\n$1"),
  };
  for (const [finding, twin] of Object.entries(twins))
    expect(checkSecurityPage(twin, read).join("\n")).toContain(finding);
});

test("titles are found in every form that tests have, and those that never run are not", () => {
  const source = `
    test("one", () => {});
    describe.each([301, 302])("a %i", () => {});
    test.each<[string, number]>([["a", 1]])(
      "two, %s",
      async () => {});
    test(\`\${runs} three [SEP-2532/3.errors/codes]\`, { timeout }, () => {});
    test.skip("four", () => {});
    test.runIf(process.platform === "linux")("five", () => {});
    call("six", () => {});`;
  expect([...titlesIn(source)]).toEqual(["one", "a %i", "two, %s", "three", "five"]);
});
