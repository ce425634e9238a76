import { checkKey } from "@sluice/storage/plugin";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { uniquePaths } from "../src/names/entry-paths.ts";
import { hostileKeys } from "./hostile-keys.ts";
import { findUnsafe } from "./unsafe-names.ts";

const pathsOf = (keys: readonly string[]): string[] => keys.map(uniquePaths());

test("the table has 200 hostile keys, each legal, each once", () => {
  expect(hostileKeys.filter((key) => checkKey(key) !== undefined)).toEqual([]);
  expect(new Set(hostileKeys).size).toBe(hostileKeys.length);
  expect(hostileKeys.length).toBeGreaterThanOrEqual(200);
});

test("hostile keys become paths that are safe and unique, in any order", () => {
  expect(findUnsafe(pathsOf(hostileKeys))).toEqual([]);
  expect(findUnsafe(pathsOf(hostileKeys.toReversed()))).toEqual([]);
  expect(findUnsafe(pathsOf(hostileKeys.toSorted()))).toEqual([]);
});

test("the keys as they are break every rule that a legal key can break", () => {
  const broken = new Set(findUnsafe(hostileKeys).map((finding) => finding.replace(/:.*$/su, "")));
  for (const rule of [
    "way up",
    "hidden",
    "control",
    "direction",
    "forbidden on Windows",
    "end",
    "device",
    "option or home",
    "short name",
    "long segment",
    "long path",
    "file as folder",
  ])
    expect(broken).toContain(rule);
  expect([...broken].some((finding) => finding.endsWith("collide"))).toBe(true);
});

test("any keys become paths that are safe and unique", () => {
  const name = fc.oneof(
    fc.constantFrom(...hostileKeys.filter((key) => key.length < 40)),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }),
    fc.string({
      unit: fc.constantFrom("a", "A", ".", "~", "-", ":", " ", "1", "e\u0301", "é"),
      minLength: 1,
      maxLength: 4,
    }),
  );
  const key = fc
    .array(name, { minLength: 1, maxLength: 4 })
    .map((names) => names.join("/"))
    .filter((joined) => checkKey(joined) === undefined);
  const runs = process.env["SLUICE_DEEP"] ? 20_000 : 300;
  fc.assert(
    fc.property(fc.uniqueArray(key, { maxLength: 40 }), (keys) => {
      expect(findUnsafe(pathsOf(keys))).toEqual([]);
    }),
    { numRuns: runs },
  );
});

test("ordinary names stay as they are", () => {
  const keys = [
    "a.txt",
    "2026/Q1 report (final).pdf",
    "src/index.ts",
    "Zürich/Ölpreis.csv",
    "名前",
  ];
  expect(pathsOf(keys)).toEqual(keys);
});

test("a taken name gets a number before its extension, and no file is a folder", () => {
  expect(pathsOf(["a.txt", "A.txt", "a.TXT", "x", "x/1", "X/2", "y/1", "y"])).toEqual([
    "a.txt",
    "A (2).txt",
    "a (3).TXT",
    "x",
    "x (2)/1",
    "x (2)/2",
    "y/1",
    "y (2)",
  ]);
});

test("a folder keeps its path, whatever comes between its files", () => {
  expect(pathsOf(["D", "d/1", "x/1", "d/2", "top", "d (2)", "d/3"])).toEqual([
    "D",
    "d (2)/1",
    "x/1",
    "d (2)/2",
    "top",
    "d (2) (2)",
    "d (2)/3",
  ]);
});

test("a path that is too deep moves to the deepest folder with room for it", () => {
  const [path] = pathsOf([`${"abcdefghi/".repeat(100)}file`]);
  expect(path).toBe(`${"abcdefghi/".repeat(64)}file`);
});

test("names that all become one are numbered without trying each number again", () => {
  const pathOf = uniquePaths();
  const paths = new Set<string>();
  const count = 10_000;
  for (let number = 0; number < count; number++) {
    paths.add(pathOf(`same (${2 * number})`));
    paths.add(pathOf("same"));
    paths.add(pathOf("same (4)/file"));
  }
  expect(paths.size).toBe(3 * count);
});
