import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { checkThreats, threatsIn, titlesIn } from "./security-page.ts";

const root = new URL("../", import.meta.url);
const read = (file: string): string | undefined => {
  const url = new URL(file, root);
  return existsSync(url) ? readFileSync(url, "utf8") : undefined;
};
const folder = "docs/security/threats/";
const names = readdirSync(new URL(folder, root));
const pages = names.map((name) => read(`${folder}${name}`)!);

test("each attack that the pages list is proved by a test that exists", () => {
  expect(pages.flatMap(threatsIn).length).toBeGreaterThan(100);
  expect(checkThreats(pages, read)).toEqual([]);
});

test("SECURITY.md and the first page say how many attacks there are, and lead to every page", () => {
  const count = pages.flatMap(threatsIn).length;
  const first = read("docs/security/threats.md")!;
  expect(read("SECURITY.md")).toContain(`Each of the ${count} known attacks`);
  expect(first).toContain(`Sluice knows ${count} attacks, T1 to T${count}.`);
  expect(names.filter((name) => !first.includes(`(threats/${name})`))).toEqual([]);
});

test(
  "a wrong title, a missing file, an empty section, a lost one and a second one are found",
  { tags: "slow" },
  () => {
    const page = pages.find((text) => threatsIn(text)[0]?.id === "T1")!;
    const others = pages.filter((text) => text !== page);
    const [first] = threatsIn(page);
    const { title, file } = first!.proofs[0]!;
    const proof = `- [${title}](../../../${file})`;
    const section = /^## T1:.*\n[\s\S]*?(?=^## )/m.exec(page)![0];
    expect(section).toContain(`${proof}\n`);
    const twins = {
      [`"${title}!", which`]: page.replace(proof, `- [${title}!](../../../${file})`),
      "packages/core/test/none.test.ts, which is no test file": page.replace(
        proof,
        `- [${title}](../../../packages/core/test/none.test.ts)`,
      ),
      "T1 has a line that is no proof": page.replace(proof, `- ${title}`),
      "T1 cites no test": page.replace(section, "## T1: an attack\n\nA defence.\n\n"),
      "T1 names no defence": page.replace(section, `## T1: an attack\n\n${proof}\n\n`),
      "T1 names no attack": page.replace(section, `## T1:\n\nA defence.\n\n${proof}\n\n`),
      "T1 is missing": page.replace(section, ""),
      "T1 is there twice": page.replace(section, section + section),
    };
    for (const [finding, twin] of Object.entries(twins))
      expect(checkThreats([twin, ...others], read).join("\n")).toContain(finding);
  },
);

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
