import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const packages = new URL("../../packages/", import.meta.url);
const manifests = readdirSync(packages)
  .map((name) => JSON.parse(readFileSync(new URL(`${name}/package.json`, packages), "utf8")))
  .filter((manifest) => !manifest.private);

/** The file of an export for a program under Node, as TypeScript (`types`) or Node finds it. */
function targetOf(exported, conditions) {
  if (typeof exported === "string") return exported;
  for (const [condition, inner] of Object.entries(exported)) {
    const target = conditions.includes(condition) ? targetOf(inner, conditions) : undefined;
    if (target !== undefined) return target;
  }
  return undefined;
}

test.each(manifests)("$name: tools that read no `exports` find the same files", (manifest) => {
  const entries = Object.entries(manifest.publishConfig.exports).filter(
    ([entry]) => entry !== "./package.json",
  );
  const found = { typesVersions: {} };
  for (const [entry, exported] of entries) {
    const types = targetOf(exported, ["types", "node", "default"]);
    if (entry !== ".") found.typesVersions[entry.slice(2)] = [types];
    else Object.assign(found, { main: targetOf(exported, ["node", "default"]), types });
  }
  const { main, types, typesVersions = { "*": {} } } = manifest;
  expect({ main, types, typesVersions: typesVersions["*"] }).toEqual(found);
});

test.each(manifests)("$name: `require` finds each entry", ({ publishConfig }) => {
  for (const exported of Object.values(publishConfig.exports))
    expect(targetOf(exported, ["require", "node", "default"])).toBe(
      targetOf(exported, ["import", "node", "default"]),
    );
});
