import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(path, import.meta.url)), "utf8");
const names = readdirSync(fileURLToPath(new URL("../docs/recipes", import.meta.url)));

test("each recipe is in the list, and has at most 60 lines", () => {
  const list = read("../docs/recipes/README.md");
  expect(names).toHaveLength(13);
  for (const name of names.filter((each) => each !== "README.md")) {
    expect(list).toContain(`](${name})`);
    expect([name, read(`../docs/recipes/${name}`).split("\n").length <= 61]).toEqual([name, true]);
  }
});

test("the page of the client in Python shows the program that is run, of 25 lines", () => {
  const program = read("examples/stream.py");
  expect(program.trimEnd().split("\n")).toHaveLength(25);
  const isShown = (page: string): boolean => page.includes(`\`\`\`python\n${program}\`\`\``);
  const page = read("../docs/recipes/python.md");
  expect(isShown(page)).toBe(true);
  expect(isShown(page.replace("2**20", "2**21"))).toBe(false);
});
