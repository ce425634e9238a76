import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createUriMapper } from "@sluice/storage";
import { checkKey, resolveRange } from "@sluice/storage/plugin";
import { ensureKey } from "../src/contract/key.ts";
import { ensureRange } from "../src/plugin/operation.ts";

const runs = process.env["SLUICE_DEEP"] !== undefined ? 10_000 : 1000;
const bases = [
  "files://demo/",
  "files:///",
  "repo://acme/a/b/",
  "https://example.com/files/",
  "file:///",
];

/** The result of a call, or the code of its error. */
function outcomeOf<T>(call: () => T): { value?: T; code?: string } {
  try {
    return { value: call() };
  } catch (error) {
    return { code: (error as { code: string }).code };
  }
}

/** Every legal key, with a liking for characters that URLs and paths treat specially. */
const legalKeys = fc
  .array(
    fc.oneof(
      fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 }),
      fc.string({
        unit: fc.constantFrom(..."%2fF.?#+&' ()!*~:|@;=C/a\"<>{}^`".split("")),
        maxLength: 8,
      }),
      fc.constantFrom("%2e%2e", "...", "C:", "C|", "%", "%25", "~", "a b"),
    ),
    { minLength: 1, maxLength: 5 },
  )
  .map((segments) => segments.join("/"))
  .filter((key) => checkKey(key) === undefined);

describe("keys", () => {
  test("a key is 1 to 1024 bytes of segments that are plain names", () => {
    for (const key of [
      "a",
      "a/b",
      "...",
      "a..",
      "%2e%2e/x",
      "😀",
      "x".repeat(1024),
      "é".repeat(512),
    ])
      expect(checkKey(key), key).toBeUndefined();
    for (const key of [
      "",
      "/",
      "/a",
      "a/",
      "a//b",
      ".",
      "..",
      "a/..",
      "./a",
      "a\\b",
      "a\0",
      "\u0085",
    ])
      expect(checkKey(key), key).toBeDefined();
    for (const key of [
      "x".repeat(1025),
      "é".repeat(513),
      "\ud800",
      "a\udc00b",
      7 as unknown as string,
    ])
      expect(checkKey(key)).toBeDefined();
  });

  test("the message of a refused key is short, quoted and names the operation", () => {
    expect(() => ensureKey("a\n//b", "fs: open")).toThrow(/^fs: open "a\\n\/\/b": the key has a/);
    expect(() => ensureKey("x".repeat(9999), "fs: open")).toThrow(/^.{1,200}$/);
  });
});

describe("URIs", () => {
  for (const base of bases) {
    const mapper = createUriMapper(base);
    test(`below ${base} every legal key has one canonical URI and comes back from it`, () => {
      fc.assert(
        fc.property(legalKeys, (key) => {
          const uri = mapper.toUri(key);
          expect(new URL(uri).href).toBe(uri);
          expect(mapper.toKey(uri)).toBe(key);
        }),
        { numRuns: runs },
      );
    });

    test(`below ${base} a text that is taken for a URI is a key that maps back, or is refused`, () => {
      const texts = fc.string({
        unit: fc.constantFrom(..."ab/.%2eEfF5c?#\\é".split("")),
        maxLength: 12,
      });
      fc.assert(
        fc.property(texts, (text) => {
          const key = outcomeOf(() => mapper.toKey(base + text));
          const again = key.code
            ? key
            : outcomeOf(() => mapper.toKey(mapper.toUri(key.value ?? "")));
          expect(again).toEqual(key);
          expect(key.code ?? "invalid_argument").toBe("invalid_argument");
          expect(checkKey(key.value ?? "legal")).toBeUndefined();
        }),
        { numRuns: runs },
      );
    });
  }

  const mapper = createUriMapper("files://demo/");

  test("the template is the base and {+key} (RFC 6570), and its plain expansions map back", () => {
    expect(mapper.template).toBe("files://demo/{+key}");
    expect(mapper.toKey("files://demo/a(b)!/c'd*.txt")).toBe("a(b)!/c'd*.txt");
    expect(mapper.toKey("files://demo/%61.txt")).toBe("a.txt");
  });

  test("a URI outside the base is not_found", () => {
    for (const uri of [
      "files://demo",
      "files://demox/a",
      "files://other/a",
      "FILES://demo/a",
      "a",
      "",
    ])
      expect(() => mapper.toKey(uri)).toThrow(expect.objectContaining({ code: "not_found" }));
  });

  test("a URI below the base that names nothing is invalid_argument", () => {
    const rests = ["", "a?b", "a#b", "a%2Fb", "a%2fb", "a\\b", "a%5Cb", "a%00", "%ff", "%zz", "%"];
    for (const rest of [
      ...rests,
      "..",
      "a/../b",
      "%2e%2e/a",
      "a//b",
      "/a",
      "a/",
      "%2E",
      "%ed%a0%80",
    ])
      expect(() => mapper.toKey(`files://demo/${rest}`), rest).toThrow(
        expect.objectContaining({ code: "invalid_argument" }),
      );
  });

  test("an illegal key has no URI", () => {
    expect(() => mapper.toUri("../x")).toThrow(
      expect.objectContaining({ code: "invalid_argument" }),
    );
  });

  test("a base that is not canonical, or cannot be one, is a TypeError", () => {
    for (const base of [
      "files://demo",
      "demo/",
      "files://demo/?a/",
      "files://demo/#/",
      "files://u:p@demo/",
      "files://demo/{x}/",
      "HTTPS://example.com/",
      "https://example.com/a b/",
      "https://example.com:443/",
      "urn:x:/",
      "files://demo/../",
    ])
      expect(() => createUriMapper(base), base).toThrow(TypeError);
  });
});

describe("ranges", () => {
  test("a range resolves like slice, or is refused", () => {
    fc.assert(
      fc.property(
        fc.nat(50),
        fc.nat(60),
        fc.option(fc.nat(60), { nil: undefined }),
        (size, start, end) => {
          const range = end === undefined ? { start } : { start, end };
          const clamped = { start, end: Math.min(end ?? size, size) };
          const refusal = start >= size ? { code: "range_not_satisfiable" } : { value: clamped };
          const expected = (end ?? start) < start ? { code: "invalid_argument" } : refusal;
          expect(outcomeOf(() => resolveRange(range, size, "x"))).toEqual(expected);
        },
      ),
      { numRuns: runs },
    );
  });

  test("offsets are safe integers from 0", () => {
    for (const range of [
      { start: -1 },
      { start: 0.5 },
      { start: 2 ** 53 },
      { start: 0, end: Infinity },
    ])
      expect(() => ensureRange(range, "x")).toThrow(
        expect.objectContaining({ code: "invalid_argument" }),
      );
  });
});
