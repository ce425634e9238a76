import {
  formatEntityTag,
  matchesIfMatch,
  matchesIfNoneMatch,
  matchesIfRange,
  parseEntityTag,
} from "@sluice/core/internal";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

const tag = '"a,b"';

test("an etag becomes a header that is legal, strong, and different for different etags", () => {
  expect(formatEntityTag("0x8DD1")).toBe('"0x8DD1"');
  expect(formatEntityTag("{1B2C},3")).toBe('"{1B2C},3"');
  expect(formatEntityTag('a"b c%é\r\n')).toBe('"a%22b%20c%25%C3%A9%0D%0A"');
  expect(formatEntityTag("")).toBe('""');
  const unit = fc.constantFrom("a", "%", "2", '"', " ", "é", "\n");
  const property = fc.property(fc.string({ unit }), fc.string({ unit }), (one, other) => {
    const written = formatEntityTag(one);
    const parsed = parseEntityTag(written);
    return (
      parsed?.strong === true &&
      parsed.tag === written &&
      (one === other) === (written === formatEntityTag(other))
    );
  });
  expect(fc.check(property, { numRuns: 2_000, seed: 1 }).counterexample).toBeNull();
});

test("an ETag header is read with its strength", () => {
  expect(parseEntityTag('"a"')).toEqual({ tag: '"a"', strong: true });
  expect(parseEntityTag('W/"a"')).toEqual({ tag: '"a"', strong: false });
  expect(parseEntityTag(' "a" ')).toEqual({ tag: '"a"', strong: true });
  expect(parseEntityTag('""')).toEqual({ tag: '""', strong: true });
  for (const header of [
    undefined,
    null,
    "",
    "a",
    '"a',
    'w/"a"',
    'W/ "a"',
    '"a" "b"',
    '"a", "b"',
    '"a"b',
    '"a b"',
  ])
    expect(parseEntityTag(header)).toBeUndefined();
});

describe("If-Range (RFC 9110 §13.1.5)", () => {
  test("an absent one lets the range pass", () => {
    expect(matchesIfRange(undefined, tag)).toBe(true);
    expect(matchesIfRange(null, undefined)).toBe(true);
  });
  test("the same strong tag lets it pass", () => expect(matchesIfRange(tag, tag)).toBe(true));
  test.each([`W/${tag}`, '"b"', `${tag}, "b"`, "*", "", "Sat, 21 Nov 2026 10:00:00 GMT", "a,b"])(
    "anything else does not: %s",
    (header) => expect(matchesIfRange(header, tag)).toBe(false),
  );
  test("an object without a tag never matches one", () =>
    expect(matchesIfRange(tag, undefined)).toBe(false));
});

describe("If-Match (RFC 9110 §13.1.1)", () => {
  test.each([undefined, null, "*", " * ", tag, `"x", ${tag}`, `,${tag},,"x"`])(
    "holds: %s",
    (header) => expect(matchesIfMatch(header, tag)).toBe(true),
  );
  test.each(["", '"a"', `W/${tag}`, `${tag} "x"`, `${tag};`, "a,b"])(
    "does not hold: %s",
    (header) => expect(matchesIfMatch(header, tag)).toBe(false),
  );
  test("an object without a tag matches * only", () => {
    expect(matchesIfMatch("*", undefined)).toBe(true);
    expect(matchesIfMatch(tag, undefined)).toBe(false);
  });
});

describe("If-None-Match (RFC 9110 §13.1.2)", () => {
  test.each(["*", tag, `W/${tag}`, `"x" , W/${tag}`])("names the object: %s", (header) =>
    expect(matchesIfNoneMatch(header, tag)).toBe(true),
  );
  test.each([undefined, null, "", '"a"', `${tag}x`, "a,b"])("does not name it: %s", (header) =>
    expect(matchesIfNoneMatch(header, tag)).toBe(false),
  );
});

test("a long list costs no more than its length", () => {
  for (const part of [" ", ",", '"', '"a",', 'W/"a" ,', "W/", "\t,"])
    expect(matchesIfMatch(`${part.repeat(100_000)}x`, tag)).toBe(false);
});
