import {
  formatContentRange,
  formatRange,
  parseContentRange,
  parseRange,
} from "@sluice/core/internal";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

const numRuns = process.env["SLUICE_DEEP"] ? 200_000 : 5_000;
const big = "9".repeat(400);

describe("a Range header (RFC 9110 §14)", () => {
  test.each([
    ["first and last are both inside", "bytes=0-0", 10, { start: 0, end: 1 }],
    ["first and last are both inside", "bytes=2-5", 10, { start: 2, end: 6 }],
    ["the last byte", "bytes=9-9", 10, { start: 9, end: 10 }],
    ["an open end is the end of the object", "bytes=4-", 10, { start: 4, end: 10 }],
    ["a last byte beyond the end is clamped", "bytes=4-10", 10, { start: 4, end: 10 }],
    ["a last byte beyond all numbers is clamped", `bytes=4-${big}`, 10, { start: 4, end: 10 }],
    ["a suffix is that many last bytes", "bytes=-3", 10, { start: 7, end: 10 }],
    [
      "a suffix longer than the object means the whole object",
      "bytes=-11",
      10,
      { start: 0, end: 10 },
    ],
    [
      "a suffix beyond all numbers means the whole object",
      `bytes=-${big}`,
      10,
      { start: 0, end: 10 },
    ],
    ["the unit may be in any case", "BYTES=0-1", 10, { start: 0, end: 2 }],
    ["zeros in front count for nothing", "bytes=000-0001", 10, { start: 0, end: 2 }],
    ["white space around the range is let pass", "bytes= \t0-1\t ", 10, { start: 0, end: 2 }],
    ["empty list elements are not ranges", "bytes=, ,0-1,,", 10, { start: 0, end: 2 }],
    [
      "objects may be larger than 4 GiB",
      "bytes=4294967296-",
      2 ** 53 - 1,
      { start: 2 ** 32, end: 2 ** 53 - 1 },
    ],
  ])("%s: %s of %d", (_, header, size, range) => {
    expect(parseRange(header, size)).toEqual(range);
  });

  test.each([
    ["a first byte at the end", "bytes=10-", 10],
    ["a first byte behind the end", "bytes=11-12", 10],
    ["a first byte beyond all numbers", `bytes=${big}-`, 10],
    ["a suffix of no bytes", "bytes=-0", 10],
    ["any first byte of an empty object", "bytes=0-", 0],
    ["any first byte of an empty object", "bytes=0-0", 0],
    ["a suffix of no bytes of an empty object", "bytes=-0", 0],
  ])("%s cannot be satisfied: %s of %d", (_, header, size) => {
    expect(parseRange(header, size)).toBe("unsatisfiable");
  });

  test.each([
    ["no header", undefined, 10],
    ["no header, as Headers gives it", null, 10],
    ["more than one range", "bytes=0-1,3-4", 10],
    ["more than one range, overlapping", "bytes=0-,0-,0-", 10],
    ["more than one range, one behind the end", "bytes=0-1,99-", 10],
    ["last before first", "bytes=5-4", 10],
    ["last before first behind the end", "bytes=50-40", 10],
    ["a suffix of an empty object, which no 206 can express", "bytes=-5", 0],
    ["another unit", "items=0-1", 10],
    ["another unit", "byte=0-1", 10],
    ["no unit", "0-1", 10],
  ])("%s means the whole object: %s", (_, header, size) => {
    expect(parseRange(header, size)).toBeUndefined();
  });

  test.each([
    "",
    "bytes",
    "bytes=",
    "bytes=-",
    "bytes=a-b",
    "bytes=1",
    "bytes=--1",
    "bytes=-1-2",
    "bytes=1-2-3",
    "bytes =0-1",
    "bytes=0 -1",
    "bytes=0- 1",
    "bytes:0-1",
    "bytes=+1-2",
    "bytes=0x1-2",
    "bytes=1e1-",
    "bytes=0-1;a",
    "bytes=0-1\r\n",
    "bytes=٠-١",
    "bytes=0.5-1",
    "xbytes=0-1",
  ])("a malformed header means the whole object: %j", (header) => {
    expect(parseRange(header, 10)).toBeUndefined();
  });

  test("lies inside the object and is not empty, whatever the header", () => {
    const number = fc.oneof(
      fc.constant(""),
      fc.nat().map(String),
      fc.bigInt({ min: 0n }).map(String),
    );
    const header = fc.oneof(
      fc.string({ maxLength: 60 }),
      fc.tuple(number, number).map(([first, last]) => `bytes=${first}-${last}`),
    );
    const size = fc.oneof(fc.nat({ max: 20 }), fc.maxSafeNat());
    const property = fc.property(header, size, (text, bytes) => {
      const range = parseRange(text, bytes);
      return (
        typeof range !== "object" ||
        (range.start >= 0 && range.start < range.end && range.end <= bytes)
      );
    });
    expect(fc.check(property, { numRuns, seed: 1 }).counterexample).toBeNull();
  });

  test("a long header costs no more than its length", () => {
    for (const part of ["1", ",", " ", ", ", "0-1,", "-", "\t"])
      expect(parseRange(`bytes=${part.repeat(200_000)}x`, 10)).toBeUndefined();
  });

  test("an invalid size is the caller's mistake", () => {
    for (const size of [-1, 0.5, Number.NaN, Infinity, 2 ** 53])
      expect(() => parseRange("bytes=0-", size)).toThrow(RangeError);
  });
});

describe("writing ranges", () => {
  test("a written header reads back as the same", () => {
    const range = { start: 5, end: 8 };
    expect(formatRange(range)).toBe("bytes=5-7");
    expect(formatRange({ start: 5 })).toBe("bytes=5-");
    expect(parseRange(formatRange(range), 100)).toEqual(range);
    expect(formatContentRange({ range, size: 100 })).toBe("bytes 5-7/100");
    expect(parseContentRange("bytes 5-7/100")).toEqual({ range, size: 100 });
    expect(formatContentRange({ range })).toBe("bytes 5-7/*");
    expect(parseContentRange("bytes 5-7/*")).toEqual({ range });
    expect(formatContentRange({ size: 100 })).toBe("bytes */100");
    expect(parseContentRange("bytes */100")).toEqual({ size: 100 });
  });

  test("rejects an invalid range", () => {
    for (const range of [
      { start: 5, end: 5 },
      { start: 5, end: 4 },
      { start: -1 },
      { start: 0.5 },
      { start: 0, end: Infinity },
    ])
      expect(() => formatRange(range)).toThrow(RangeError);
    expect(() => formatContentRange({ range: { start: 0, end: 0 } })).toThrow(RangeError);
    expect(() => formatContentRange({ size: -1 })).toThrow(RangeError);
  });
});

describe("a Content-Range header", () => {
  test.each([
    undefined,
    null,
    "",
    "bytes",
    "bytes 0-1",
    "bytes 0-1/",
    "bytes -1/5",
    "bytes 0-/5",
    "bytes */*",
    "bytes 5-4/10",
    "bytes 0-10/10",
    "bytes 0-1/1",
    "items 0-1/2",
    "bytes=0-1/2",
    "bytes 0-1/2, bytes 3-4/9",
    `bytes 0-${big}/*`,
    `bytes 0-1/${big}`,
    `bytes */${big}`,
    " bytes 0-1/2",
    "bytes  0-1/2",
  ])("malformed or contradicting itself, it says nothing: %s", (header) => {
    expect(parseContentRange(header)).toBeUndefined();
  });
});
