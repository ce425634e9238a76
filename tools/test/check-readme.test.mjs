import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { npxLines } from "../check-npx.mjs";
import { lint, readSteps } from "../check-readme.mjs";
import { folderOf, withDependencies } from "../pack.mjs";

const markdown = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const findingsOf = (text) =>
  lint(readSteps(text, "## Add it to your server", "## Run it for your company")).join("\n");

test("the README's lines have one port, one base, and install what they import", () => {
  expect(findingsOf(markdown)).toBe("");
});

test.each([
  ["another port", ["ls  http://127.0.0.1:2532", "ls http://127.0.0.1:3000"], "ports: 2532, 3000"],
  ["another base", ["mcp files://local/big.bin", "mcp files://demo/big.bin"], "bases: demo, local"],
  [
    "another package to install",
    ["install sluice @", "install @sluice/server @"],
    "installed are server",
  ],
  [
    "an import of what is not installed",
    ['"sluice/node"', '"@sluice/storage-fs"'],
    "not installed: storage-fs",
  ],
  ["no serving", ["`npx sluice serve ./files", "`sluice serve ./files"], "no line serves"],
])("a README with %s is found out", (_name, [from, to], finding) => {
  const broken = markdown.replace(from, to);
  expect(broken).not.toBe(markdown);
  expect(findingsOf(broken)).toContain(finding);
});

test("the README has the two commands that need no installation", () => {
  const { serving, saving, name, copies } = npxLines(markdown);
  expect(serving).toBe("npx sluice serve .");
  expect(saving).toBe(
    `npx sluice get http://127.0.0.1:2532/mcp files://local/${name} -o ${copies}`,
  );
  expect(() => npxLines(markdown.replaceAll("npx sluice get", "sluice get"))).toThrow("no lines");
});

test("the figures of the README are those of the performance page", () => {
  const page = readFileSync(
    new URL("../../docs/reference/performance.md", import.meta.url),
    "utf8",
  );
  const row = /^\| base64 200 MiB .*$/m.exec(page)[0].split("|").slice(4, 6);
  const peaks = row.map((cell) => Number.parseFloat(cell));
  const [, faster] = /^- 200 MiB, times as fast: ([\d.]+)/m.exec(page);
  expect(markdown).toContain("200 MiB take more than 1 GiB of memory at each end");
  expect(Math.min(...peaks)).toBeGreaterThan(1_024);
  expect(markdown).toContain("400 MiB fail");
  expect(page).toContain("| base64 400 MiB (fails:");
  expect(markdown).toContain("[more than 10 times as fast]");
  expect(Number(faster)).toBeGreaterThan(10);
});

test("packages are packed with those that they need, each once", () => {
  const manifests = {
    a: { dependencies: { "@sluice/b": "1", other: "1" } },
    b: { peerDependencies: { "@sluice/c": "1" }, dependencies: { "@sluice/a": "1" } },
    c: {
      peerDependencies: { "@sluice/d": "1" },
      peerDependenciesMeta: { "@sluice/d": { optional: true } },
    },
    d: {},
  };
  expect(withDependencies(["a"], (name) => manifests[name])).toEqual(["a", "b", "c"]);
});

test("a package is named with its scope, or without", () => {
  expect(["@sluice/storage-s3", "storage-s3", "sluice"].map(folderOf)).toEqual([
    "storage-s3",
    "storage-s3",
    "sluice",
  ]);
});

test("a package that is not there is named", () => {
  const pack = new URL("../pack.mjs", import.meta.url).pathname;
  expect(() =>
    execFileSync(process.execPath, [pack, "/tmp/none", "nothing"], { stdio: "pipe" }),
  ).toThrow(/there is no package nothing/);
});
