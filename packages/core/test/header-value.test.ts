import {
  formatContentDisposition,
  formatContentType,
  formatEntityTag,
  formatResourceUri,
  isSameResource,
  parseResourceUri,
  parseRetryAfter,
} from "@sluice/core/internal";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileText } from "./hostile-text.ts";

const numRuns = process.env["SLUICE_DEEP"] ? 100_000 : 3_000;

test("no name, type, URI or etag can break a header or add one", { tags: "slow" }, () => {
  const hostile = fc.integer().map(hostileText);
  const property = fc.property(hostile, hostile, hostile, hostile, (name, type, uri, etag) => {
    const sent: [string, string][] = [
      ["content-disposition", formatContentDisposition(name)],
      ["content-type", formatContentType(type)],
      ["etag", formatEntityTag(etag)],
      ["mcp-resource-uri", formatResourceUri(uri)],
    ];
    const headers = new Headers(sent);
    return (
      [...headers].length === sent.length &&
      sent.every(([key, value]) => headers.get(key) === value && /^[\x20-\x7e]*$/.test(value))
    );
  });
  expect(fc.check(property, { numRuns, seed: 1 }).counterexample).toBeNull();
});

describe("MCP-Resource-Uri", () => {
  test.each([
    ["files://demo/a%20b.txt", "files://demo/a%20b.txt"],
    ["files://demo/ü", "=?base64?ZmlsZXM6Ly9kZW1vL8O8?="],
    ["a b", "=?base64?YSBi?="],
    ["", "=?base64??="],
    ["=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="],
    ["=?utf-8?q?=", "=?utf-8?q?="],
  ])("%j is written %s and read as itself", (uri, header) => {
    expect(formatResourceUri(uri)).toBe(header);
    expect(parseResourceUri(header)).toBe(uri);
  });

  test("any URI comes back", () => {
    const text = fc.string({ unit: "grapheme", maxLength: 40 });
    const property = fc.property(text, (uri) => parseResourceUri(formatResourceUri(uri)) === uri);
    expect(fc.check(property, { numRuns: 2_000, seed: 1 }).counterexample).toBeNull();
  });

  test.each([
    undefined,
    null,
    "",
    "a b",
    "ü",
    "a, b",
    "=?base64?a?=",
    "=?base64?_-==?=",
    "=?base64?/w==?=",
    "=?base64?YQ== ?=",
  ])("malformed: %s", (header) => expect(parseResourceUri(header)).toBeUndefined());
});

describe("Retry-After (RFC 9110 §10.2.3)", () => {
  const now = Date.UTC(2026, 10, 21, 10, 0, 0);
  test.each([
    ["0", 0],
    ["120", 120_000],
    [" 7 ", 7_000],
    ["Sat, 21 Nov 2026 10:01:00 GMT", 60_000],
    ["Saturday, 21-Nov-26 10:01:00 GMT", 60_000],
    ["Sat Nov 21 10:01:00 2026", 60_000],
    ["Sun Nov  1 10:01:00 2026", 0],
    ["Sun, 06 Nov 1994 08:49:37 GMT", 0],
    ["Sunday, 06-Nov-94 08:49:37 GMT", 0],
    ["Wednesday, 21-Nov-76 10:00:00 GMT", Date.UTC(2076, 10, 21, 10) - now],
  ])("%s", (header, waitMs) => expect(parseRetryAfter(header, now)).toBe(waitMs));

  test.each([
    undefined,
    null,
    "",
    "-1",
    "1.5",
    "1e3",
    "0x10",
    "12345678901",
    "soon",
    "1 2",
    "1, 2",
    "Sat, 21 Nov 2026 10:01:00",
    "Sat, 21 Nov 2026 10:01:00 UTC",
    "Sat, 21 Nix 2026 10:01:00 GMT",
    "2026-11-21T10:01:00Z",
  ])("malformed: %s", (header) => expect(parseRetryAfter(header, now)).toBeUndefined());
});

test("URIs name the same resource when they differ only in percent-encoding, delimiters apart", () => {
  const same = [
    ["files://demo/a.bin", "files://demo/%61.bin"],
    ["files://demo/(x)%21.txt", "files://demo/%28x%29!.txt"],
    ["files://demo/\u00e9", "files://demo/%c3%A9"],
    ["files://demo/%zz", "files://demo/%zz"],
  ];
  const other = [
    ["files://demo/a/b", "files://demo/a%2Fb"],
    ["files://demo/a?b", "files://demo/a%3Fb"],
    ["files://demo/a#b", "files://demo/a%23b"],
    ["files://demo/%61", "files://demo/%2561"],
    ["files://demo/A", "files://demo/a"],
    ["files://demo/%zz", "files://demo/%25zz"],
    ["files://demo/a", "files://demo/a/"],
  ];
  for (const [one, two] of same) expect([one, isSameResource(one!, two!)]).toEqual([one, true]);
  for (const [one, two] of other) expect([one, isSameResource(one!, two!)]).toEqual([one, false]);
});
