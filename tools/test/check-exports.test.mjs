import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { checkExports, publicValues, readRepository } from "../check-exports.mjs";

const files = {
  "x/src/index.ts":
    'export { createX, type X, type XOptions } from "./x.ts";\nexport * from "./more.ts";\n' +
    'export type { Y } from "./y.ts";\nexport interface Z {}\nexport const limit = 1;\n' +
    'export { SluiceError } from "@sluice/core";\nexport { parse } from "@sluice/core/internal";\n',
  "x/src/more.ts": "export function openMore() {}\nexport class Store {}\nexport type Kind = 1;\n",
  "x/src/node.ts": 'export { createX } from "./x.ts";\n',
};
const packages = [
  {
    name: "@sluice/x",
    entries: [
      { entry: "@sluice/x", path: "x/src/index.ts" },
      { entry: "@sluice/x/node", path: "x/src/node.ts" },
    ],
  },
];
const values = publicValues(packages, (path) => files[path]);
const everything = "`createX(options)` `openMore` `Store` `limit` `parse`";
const page = (text, path = "README.md") => [{ path, text }];

test("public values are those of all public entries, each once, and no types", () => {
  expect(values.map(({ name }) => name)).toEqual([
    "createX",
    "openMore",
    "Store",
    "limit",
    "parse",
  ]);
  expect(values[0].entries).toEqual(["@sluice/x", "@sluice/x/node"]);
});

test("an export that no page names is found; prose does not name it", () => {
  expect(checkExports(values, page(everything))).toEqual([]);
  const [made, ...others] = checkExports(
    [...values, { owner: "@sluice/x", name: "createMadeUp", entries: ["@sluice/x"] }],
    page(`${everything}\nA createMadeUp that only prose has.\n`),
  );
  expect(made).toBe(
    "@sluice/x: nothing names createMadeUp; show it in a guide, or move it to ./internal",
  );
  expect(others).toEqual([]);
  const fence = "```ts\ncreateX(), openMore(), new Store(limit, parse);\n```\n";
  expect(checkExports(values, page(fence))).toEqual([]);
});

test("a value beyond the maximum is found", () => {
  expect(checkExports(values, page(everything), 5)).toEqual([]);
  expect(checkExports(values, page(everything), 4)).toEqual([
    "5 public values are more than 4: move some to ./internal",
  ]);
});

test("a page that shows an import of an internal entry is found", () => {
  const importing = (entry) =>
    checkExports([], page(`import { a } from "${entry}";\n`, "e2e/examples/a.ts"));
  expect(importing("@sluice/core")).toEqual([]);
  for (const entry of ["@sluice/core/internal", "@sluice/core/internal/node"])
    expect(importing(entry)).toEqual([
      `e2e/examples/a.ts: imports ${entry}, which is not for users`,
    ]);
  const concept = page(
    '```ts\nimport { a } from "@sluice/core/internal";\n```\n',
    "docs/concepts/a.md",
  );
  expect(checkExports([], concept)).toEqual([]);
});

test("the repository has at most 180 public values, and a page names each", () => {
  const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
  const repository = readRepository(root);
  expect(checkExports(repository.values, repository.pages)).toEqual([]);
});
