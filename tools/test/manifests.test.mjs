import { expect, test } from "vitest";
import { moveLinks, sharedFields, slugOf, staleFiles } from "../manifests.mjs";

const url = (slug) => ({ type: "git", url: `git+https://github.com/${slug}.git` });
const root = { license: "MIT", author: "A", keywords: ["mcp", "files"], repository: url("a/b") };
const text = (manifest) => `${JSON.stringify(manifest, undefined, 2)}\n`;
const asFiles = (from, to) => ({
  "package.json": text({ ...root, repository: url(to) }),
  "packages/core/package.json": text({ name: "@sluice/core", version: "0.0.0", description: "C" }),
  "packages/sluice/package.json": text({ name: "sluice", repository: url(from), files: ["dist"] }),
  "server.json": `{ "name": "io.github.${from}" }`,
  "README.md": `https://github.com/${from}/issues, and https://github.com/others/b`,
});

test("all manifests, and every link, follow the repository of the root manifest", () => {
  const files = asFiles("a/b", "c/d");
  const stale = staleFiles(files);
  expect(Object.keys(stale)).toEqual([
    "packages/core/package.json",
    "packages/sluice/package.json",
    "server.json",
    "README.md",
  ]);
  expect(JSON.parse(stale["packages/sluice/package.json"])).toEqual({
    name: "sluice",
    mcpName: "io.github.c/d",
    keywords: ["files", "mcp"],
    homepage: "https://github.com/c/d/tree/main/packages/sluice#readme",
    bugs: "https://github.com/c/d/issues",
    license: "MIT",
    author: "A",
    repository: { ...url("c/d"), directory: "packages/sluice" },
    files: ["dist"],
  });
  expect(stale["server.json"]).toBe('{ "name": "io.github.c/d" }');
  expect(stale["README.md"]).toBe("https://github.com/c/d/issues, and https://github.com/others/b");
  expect(staleFiles({ ...files, ...stale })).toEqual({});
});

test("only the package of the command has a name in the MCP registry; others keep their keywords", () => {
  const fields = sharedFields(root, "packages/x", { name: "@sluice/x", keywords: ["s3", "mcp"] });
  expect(fields.mcpName).toBeUndefined();
  expect(fields.keywords).toEqual(["files", "mcp", "s3"]);
});

test.each([
  ["image: ghcr.io/a/b:1", "image: ghcr.io/c/d:1"],
  ["* @a/maintainers", "* @c/maintainers"],
  ["https://github.com/a/b.git", "https://github.com/c/d.git"],
  ["https://github.com/other/b", "https://github.com/other/b"],
  ["github.com/a/b-docs github.com/a/b", "github.com/a/b-docs github.com/c/d"],
])("%j moves to %j", (before, after) => {
  expect(moveLinks(before, "a/b", "c/d")).toBe(after);
});

test.each([undefined, "https://github.com/a/b", "git+https://gitlab.com/a/b.git"])(
  "the repository %j is rejected with the form to write",
  (address) => {
    expect(() => slugOf({ repository: { url: address } })).toThrow("OWNER/NAME");
  },
);
