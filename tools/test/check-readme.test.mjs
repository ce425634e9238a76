import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { lint, readSteps } from "../check-readme.mjs";
import { withDependencies } from "../pack.mjs";

const markdown = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const findingsOf = (text) =>
  lint(readSteps(text, "## Add it to a server", "## What you get")).join("\n");

test("the README's lines have one port, one base, and install what they import", () => {
  expect(findingsOf(markdown)).toBe("");
});

test.each([
  ["another port", ["ls  http://127.0.0.1:3000", "ls http://127.0.0.1:2532"], "ports: 3000, 2532"],
  ["another base", ["mcp files://demo/big.bin", "mcp files://local/big.bin"], "bases: demo, local"],
  ["a package that is not installed", [" @sluice/client @sluice/cli", " @sluice/cli"], "installed"],
  ["no serving", ["`npx sluice serve", "`sluice serve"], "no line serves"],
])("a README with %s is found out", (_name, [from, to], finding) => {
  const broken = markdown.replace(from, to);
  expect(broken).not.toBe(markdown);
  expect(findingsOf(broken)).toContain(finding);
});

test("packages are packed with those that they need, each once", () => {
  const manifests = {
    a: { dependencies: { "@sluice/b": "1", other: "1" } },
    b: { peerDependencies: { "@sluice/c": "1" }, dependencies: { "@sluice/a": "1" } },
    c: {},
    d: {},
  };
  expect(withDependencies(["a"], (name) => manifests[name])).toEqual(["a", "b", "c"]);
});

test("a package that is not there is named", () => {
  const pack = new URL("../pack.mjs", import.meta.url).pathname;
  expect(() =>
    execFileSync(process.execPath, [pack, "/tmp/none", "nothing"], { stdio: "pipe" }),
  ).toThrow(/there is no package nothing/);
});
