import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL("../", import.meta.url);

/** Names in the second column of every table of a page. */
function namesIn(page: string): string[] {
  const cells = page.split("\n").map((line) => line.split("|")[2] ?? "");
  return cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
}

/** Names that no source declares. */
function missing(names: readonly string[], sources: string): string[] {
  return names.filter(
    (name) => !new RegExp(`\\b(?:interface|type|function|const|class) ${name}\\b`).test(sources),
  );
}

// not whole packages: a walk goes through the links of node_modules
const sources = readdirSync(new URL("packages/", root))
  .map((name) => new URL(`packages/${name}/src/`, root))
  .flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => readFileSync(new URL(file, folder), "utf8")),
  )
  .join("\n");

test("each name in code that the glossary gives is declared in a package", { tags: "slow" }, () => {
  const names = namesIn(readFileSync(new URL("docs/concepts/glossary.md", root), "utf8"));
  expect(names.length).toBeGreaterThan(20);
  expect(missing(names, sources)).toEqual([]);
  expect(missing(["NoSuchName"], sources)).toEqual(["NoSuchName"]);
});
