import { formatContentType, parseMediaType, unpromisedFormat } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";

const long = `a/${"b".repeat(125)}`;

describe("a media type (RFC 9110 §8.3.1)", () => {
  test.each([
    ["text/plain", { essence: "text/plain" }],
    [" Text/PLAIN\t", { essence: "text/plain" }],
    ["text/plain;charset=utf-8", { essence: "text/plain", charset: "utf-8" }],
    ['text/plain ; a="x;y\\"" ; Charset="UTF-8" ;', { essence: "text/plain", charset: "UTF-8" }],
    ["application/vnd.a+json; v=1", { essence: "application/vnd.a+json" }],
    [long, { essence: long }],
  ])("%s", (text, parsed) => expect(parseMediaType(text)).toEqual(parsed));

  test.each([
    undefined,
    null,
    "",
    "text",
    "text/",
    "/plain",
    "text/plain/x",
    "text plain",
    "text/plain, text/html",
    "text/plain; charset",
    "text/plain; =a",
    'text/plain; a="b',
    "text/plain; a=b c",
    `${long}x`,
    "*/é",
    "text/plain;charset=a;charset=b",
    "text/plain\r\nx: y",
    "text/plain;a=\u0000",
    "text/pl\nain",
  ])("malformed: %s", (text) => expect(parseMediaType(text)).toBeUndefined());

  test("a long one costs no more than its length", () => {
    for (const part of [";", "; ", "a=b;", ' ;a="\\"', "/", "a"])
      expect(parseMediaType(`text/plain;${part.repeat(50_000)}\0`)).toBeUndefined();
  });
});

test.each([
  ["text/html; charset=UTF-8; boundary=x", "text/html; charset=UTF-8"],
  ["text/plain", "text/plain"],
  ["TEXT/csv;header=present", "text/csv"],
  ["application/pdf; charset=utf-8", "application/pdf"],
  ['text/plain; charset="a b"', "text/plain"],
  ['text/plain; charset=""', "text/plain"],
  ["nonsense", "application/octet-stream"],
  ["text/plain\r\nset-cookie: a", "application/octet-stream"],
  [undefined, "application/octet-stream"],
])("the Content-Type for %j is %s", (stored, sent) => expect(formatContentType(stored)).toBe(sent));

test.each([
  ["text/html; charset=utf-8", "application/pdf", "HTML"],
  ["application/problem+json", "text/csv", "JSON"],
  ["text/xml", "image/png", "XML"],
  ["application/json", "text/html", "JSON"],
  ["application/json", "application/geo+json; v=1", undefined],
  ["application/json", "application/x-ndjson", undefined],
  ["application/xml", "image/svg+xml", undefined],
  ["image/png", "application/pdf", undefined],
  ["text/html", "text/plain", undefined],
  ["text/html", "application/octet-stream", undefined],
  ["text/html", "no type", undefined],
  ["text/html", undefined, undefined],
  [null, "application/pdf", undefined],
])("%s in place of %s is a message in %s", (found, promised, format) =>
  expect(unpromisedFormat(found, promised)).toBe(format),
);
