import { expect, test } from "vitest";
import { checkChapters, checkFile, checkPortable, importsOf } from "../check-layers.mjs";
import { anchorsOf, checkLinks, followMoves } from "../check-links.mjs";
import { checkSnippets, createFinder, isImportsOnly, region } from "../check-snippets.mjs";
import { toPage } from "../options-reference.mjs";

const manifest = { name: "@sluice/storage", dependencies: { "@sluice/core": "workspace:*" } };

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

test("no package stands on the one that has them all", () => {
  expect(
    checkFile("storage", "x.ts", `export { createSluice } from "sluice";`, manifest),
  ).toContain("x.ts: storage must not import sluice");
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

test("a chapter imports chapters below its own, and no other", () => {
  const order = ["low", "middle", "high"];
  const check = (specifier) => checkChapters(order, "middle/a.ts", `import "${specifier}";`);
  for (const allowed of ["../low/b.ts", "./b.ts", "./part/b.ts", "node:fs", "@sluice/core"])
    expect(check(allowed)).toEqual([]);
  expect(check("../high/b.ts")).toEqual(["middle/a.ts: middle must not import high"]);
  expect(check("../index.ts")).toEqual([
    "middle/a.ts: middle must not import an entry of its package",
  ]);
  expect(checkChapters(order, "index.ts", `import "./high/b.ts";`)).toEqual([]);
  expect(checkChapters(order, "new/a.ts", "")).toHaveLength(1);
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

test("a second region of one name is an error, not the first one", () => {
  const twice = "// #region one\na();\n// #endregion\n// #region one\nb();\n// #endregion\n";
  expect(() => region(twice, "one")).toThrow('two regions "one"');
  const { findings, text } = checkSnippets(
    "R.md",
    "```ts source=x.ts#one\na();\n```\n",
    () => twice,
  );
  expect(findings).toEqual(['R.md:1: x.ts has two regions "one"']);
  expect(text).toContain("a();");
});

test.each([
  ['import a from "a";\nimport {\n  b,\n} from "b";\nimport "c"; // why\n', true],
  ['const { a } = await import("a");\n', true],
  ['import a from "a";\na();\n', false],
  ['const { a } = await import("a");\nexport const b = a();\n', false],
])("a fence of imports only is found: %j", (code, isOnly) => {
  expect(isImportsOnly(code)).toBe(isOnly);
  const { findings } = checkSnippets("R.md", `\`\`\`ts source=x.ts\n${code}\`\`\`\n`, () => code);
  expect(findings).toHaveLength(isOnly ? 1 : 0);
});

test("a source that has moved is followed where only one file can be meant", () => {
  const files = { "b/x.ts": "// #region one\na();\n// #endregion\n", "b/y.ts": "" };
  const read = (path) => files[path];
  const markdown = "```ts source=a/x.ts#one\nold();\n```\n";
  const fixed = "```ts source=b/x.ts#one\na();\n```\n";
  const find = createFinder(Object.keys(files), read);
  expect(checkSnippets("R.md", markdown, read, find).text).toBe(fixed);
  const renamed = "```ts source=a/old.ts#one\na();\n```\n";
  expect(checkSnippets("R.md", renamed, read, find).text).toBe(fixed);
  const other = renamed.replace("a();", "other();");
  expect(checkSnippets("R.md", other, read, find).text).toBe(other);
  files["c/x.ts"] = files["b/x.ts"];
  const torn = createFinder(Object.keys(files), read);
  expect(checkSnippets("R.md", markdown, read, torn).text).toBe(markdown);
});

test("the options page has exported options with their docstrings, also behind re-exports", () => {
  const files = {
    "index.ts": 'export { a, type AOptions } from "./a.ts";\nexport * from "./b.ts";\n',
    "a.ts":
      'import type { BOptions } from "./b.ts";\n/** Of a. */\nexport interface AOptions extends BOptions {\n' +
      "  /** How long. Default: 30 s. */\n  readonly waitMs?: number;\n  onEnd?(n: number): void;\n}\n" +
      "export interface HiddenOptions { x: 1 }\n",
    "b.ts": "export interface BOptions {\n  /** Where. */\n  readonly path: string;\n}\n",
  };
  const entries = [{ entry: "@x/y", path: "index.ts" }];
  const page = toPage([{ name: "@x/y", entries }], (path) => files[path]);
  expect(page).toContain(
    "### AOptions\n\nOf a.\n\nFrom `@x/y`.\n\n- `path` (required): `string`\n  Where.\n",
  );
  expect(page).toContain(
    "- `waitMs`: `number`\n  How long. Default: 30 s.\n- `onEnd`: `(n: number) => void`\n",
  );
  expect(page).toContain("### BOptions");
  expect(page).not.toContain("Hidden");
});

test("the options page has timeouts, and options that an interface inherits from another package", () => {
  const files = {
    "index.ts":
      'import type { BOptions } from "@x/b/internal";\n' +
      "export interface AOptions extends BOptions {}\nexport interface ATimeouts { readonly idleMs: number }\n",
    "b.ts": "export interface BOptions {\n  /** Names. */\n  readonly hosts?: string[];\n}\n",
  };
  const entries = [{ entry: "@x/y", path: "index.ts" }];
  const resolve = (specifier) => (specifier === "@x/b/internal" ? "b.ts" : undefined);
  const page = toPage([{ name: "@x/y", entries }], (path) => files[path], resolve);
  expect(page).toContain("From `@x/y`.\n\n- `hosts`: `string[]`\n  Names.\n");
  expect(page).toContain("### ATimeouts\n\nFrom `@x/y`.\n\n- `idleMs`: `number`\n");
});

test("the options page has each option of alternatives once, as the one that describes it has it", () => {
  const files = {
    "index.ts":
      "interface Fixed {\n  readonly use?: 'once';\n  /** Never. */\n  readonly stop: false;\n}\n" +
      "interface Free { readonly use?: string; readonly stop?: true }\n" +
      "type Choice =\n  | {\n      /** One. */\n      readonly one?: string;\n      readonly many?: never;\n    }\n" +
      "  | {\n      readonly one?: never;\n      /** Many. */\n      readonly many: string[];\n    };\n" +
      "export type AOptions = Choice & (Free | Fixed);\n",
  };
  const entries = [{ entry: "@x/y", path: "index.ts" }];
  const page = toPage([{ name: "@x/y", entries }], (path) => files[path]);
  expect(page).toContain(
    "- `one`: `string`\n  One.\n- `many`: `string[]`\n  Many.\n- `use`: `string`\n- `stop`: `false`\n  Never.\n",
  );
  expect(page).not.toContain("required");
});

test("a link to no file, or to no heading, and a path that is not there are found; fences are not looked at", () => {
  const files = { "docs/a.md": "# A, `b` & c\n", src: "" };
  const read = (path) => files[path];
  const page = "[a](a.md#a-b--c) [s](../src) [w](https://x.y/z)\n```ts\nf[0](none)\n```\n";
  expect(checkLinks("docs/p.md", page, read)).toEqual([]);
  expect(checkLinks("docs/p.md", "[a](b.md) [h](a.md#none) [i](#no)", read)).toEqual([
    "docs/p.md: b.md leads nowhere",
    "docs/p.md: a.md#none names no heading",
    "docs/p.md: #no names no heading",
  ]);
  expect(
    checkLinks("docs/p.md", "`docs/a.md` `tools/call`\n```\n`docs/b.md`\n```\n", read),
  ).toEqual([]);
  expect(checkLinks("docs/p.md", "`docs/b.md` `tools/b.mjs`", read)).toEqual([
    "docs/p.md: there is no docs/b.md",
    "docs/p.md: there is no tools/b.mjs",
  ]);
  expect([...anchorsOf("# One\n## Two words\n")]).toEqual(["one", "two-words"]);
});

test("a link follows a file that has moved where one file alone has its name", () => {
  const read = (path) => (path === "b/x.ts" ? "" : undefined);
  const mend = (files) => followMoves("docs/p.md", "[x](../a/x.ts)", read, files);
  expect(mend(["b/x.ts"])).toBe("[x](../b/x.ts)");
  expect(mend(["b/x.ts", "c/x.ts"])).toBe("[x](../a/x.ts)");
});
