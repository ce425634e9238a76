import { expect, test } from "vitest";
import { checkFile, checkPortable, importsOf } from "../check-layers.mjs";
import { checkSnippets, region } from "../check-snippets.mjs";

const manifest = { name: "@sluice/storage", dependencies: { "@sluice/core": "workspace:^" } };

test("imports are found in every form that TypeScript has", () => {
  const source = `import a from "a";\nimport {\n  b,\n} from "b";\nimport "c";\nexport * from "d";\nimport type { E } from "e";\nawait import("f");\n`;
  expect(importsOf(source)).toEqual(["a", "b", "c", "d", "e", "f"]);
});

test("a downward import passes, a sideways or upward one is named", () => {
  expect(checkFile("storage", "x.ts", `import { a } from "@sluice/core";`, manifest)).toEqual([]);
  expect(checkFile("storage", "x.ts", `import { a } from "@sluice/server";`, manifest)).toContain(
    "x.ts: storage must not import server",
  );
});

test("only the layers that speak MCP may import its SDK", () => {
  expect(
    checkFile("storage", "x.ts", `import "@modelcontextprotocol/server";`, manifest),
  ).toContain("x.ts: storage must not import the MCP SDK");
});

test("an import that the manifest does not declare is named", () => {
  expect(checkFile("storage", "x.ts", `import "left-pad";`, manifest)).toEqual([
    "x.ts: imports left-pad, which its manifest lacks",
  ]);
});

test("a Node module two files below a portable entry is found", () => {
  const files = { "/a.ts": `import "./b.ts";`, "/b.ts": `import { open } from "node:fs";` };
  expect(checkPortable("/a.ts", (file) => files[file])).toEqual([
    "/b.ts: imports node:fs, but a portable entry reaches it",
  ]);
});

test("a region is cut out without the indentation it stands in", () => {
  expect(region("x\n  // #region one\n  if (a) {\n    b();\n  }\n  // #endregion\n", "one")).toBe(
    "if (a) {\n  b();\n}\n",
  );
});

const oneFile = (path) => (path === "x.ts" ? "a();\n" : undefined);

test("a fence must name a source and equal it", () => {
  expect(checkSnippets("R.md", "```ts source=x.ts\na();\n```\n", oneFile).findings).toEqual([]);
  expect(checkSnippets("R.md", "```ts\na();\n```\n", oneFile).findings).toHaveLength(1);
  expect(checkSnippets("R.md", "```ts source=y.ts\na();\n```\n", oneFile).findings).toHaveLength(1);
  const stale = checkSnippets("R.md", "```ts source=x.ts\nb();\n```\n", oneFile);
  expect(stale.findings).toHaveLength(1);
  expect(stale.text).toBe("```ts source=x.ts\na();\n```\n");
});
