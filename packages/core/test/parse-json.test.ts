import { parseJson } from "@sluice/core/internal";
import * as fc from "fast-check";
import { expect, test, vi } from "vitest";

const nested = (levels: number, [open, close]: readonly [string, string]): string =>
  `${open.repeat(levels)}1${close.repeat(levels)}`;
const [arrays, objects] = [["[", "]"] as const, ['{"a":', "}"] as const];

test("JSON is parsed as JSON.parse does, up to 128 levels", () => {
  const property = fc.property(fc.json({ maxDepth: 20 }), (text) => {
    expect(parseJson(text)).toEqual(JSON.parse(text));
  });
  fc.assert(property, { numRuns: 500, seed: 1 });
  for (const kind of [arrays, objects])
    expect(parseJson(nested(128, kind))).toEqual(JSON.parse(nested(128, kind)));
});

test.each([
  ["arrays", nested(129, arrays)],
  ["objects", nested(129, objects)],
  ["both", nested(65, ['[{"a":', "}]"])],
  ["arrays without an end", "[".repeat(1_000_000)],
  ["arrays behind strings", `["\\"","[\\\\",${nested(128, arrays)}]`],
])("%s deeper than 128 levels are refused before they are parsed", (_, text) => {
  const parse = vi.spyOn(JSON, "parse");
  try {
    expect(() => parseJson(text)).toThrow("nested deeper than 128 levels");
    expect(parse).not.toHaveBeenCalled();
  } finally {
    parse.mockRestore();
  }
});

test("brackets in strings, or any number of them side by side, do not nest", () => {
  const text = JSON.stringify(["[".repeat(1_000), '"[{\\', '\\"'.repeat(500), "{".repeat(1_000)]);
  expect(parseJson(text)).toEqual(JSON.parse(text));
  expect(parseJson(`[${"[],".repeat(1_000)}{}]`)).toHaveLength(1_001);
});

test("invalid JSON is a SyntaxError", () => {
  for (const text of ["", '"', '"\\', "]]]", "{", "undefined"])
    expect(() => parseJson(text)).toThrow(SyntaxError);
});
