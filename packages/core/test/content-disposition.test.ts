import { formatContentDisposition, parseContentDisposition } from "@sluice/core/internal";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { trueFileName } from "../src/headers/file-name.ts";
import { hostileText } from "./hostile-text.ts";

const numRuns = process.env["SLUICE_DEEP"] ? 100_000 : 3_000;

describe("writing Content-Disposition", () => {
  test.each([
    ["report.pdf", 'attachment; filename="report.pdf"'],
    ["a b.txt", 'attachment; filename="a b.txt"'],
    ['a"b\\c;d.txt', "attachment; filename=\"a_b_c;d.txt\"; filename*=UTF-8''a%22b_c%3Bd.txt"],
    [".gitignore", "attachment; filename=\"gitignore\"; filename*=UTF-8''.gitignore"],
    [
      "über 50%.txt",
      "attachment; filename=\"_ber 50_.txt\"; filename*=UTF-8''%C3%BCber%2050%25.txt",
    ],
    ["50%.txt", "attachment; filename=\"50_.txt\"; filename*=UTF-8''50%25.txt"],
    [
      "it's (é)*.txt",
      "attachment; filename=\"it's (_)_.txt\"; filename*=UTF-8''it%27s%20%28%C3%A9%29%2A.txt",
    ],
    ["😀", "attachment; filename=\"_\"; filename*=UTF-8''%F0%9F%98%80"],
    [
      "a\r\nset-cookie: b",
      "attachment; filename=\"aset-cookie_ b\"; filename*=UTF-8''aset-cookie%3A%20b",
    ],
    ["", 'attachment; filename="download"'],
  ])("%j", (name, header) => expect(formatContentDisposition(name)).toBe(header));

  test("a written header is visible ASCII and reads back as the unchanged name", () => {
    const property = fc.property(fc.integer().map(hostileText), (name) => {
      const header = formatContentDisposition(name);
      const [read] = parseContentDisposition(header)?.fileNames ?? [];
      return /^[\x20-\x7e]+$/.test(header) && read === trueFileName(name);
    });
    expect(fc.check(property, { numRuns, seed: 1 }).counterexample).toBeNull();
  });
});

describe("reading Content-Disposition (RFC 6266)", () => {
  test.each([
    ["attachment", "attachment", []],
    ["INLINE", "inline", []],
    ["attachment; filename=a.txt", "attachment", ["a.txt"]],
    ['attachment;filename="a b.txt";', "attachment", ["a b.txt"]],
    ['attachment; FileName = "a\\"b\\\\c"', "attachment", ['a"b\\c']],
    ["attachment; filename*=UTF-8''%e2%82%ac.txt", "attachment", ["€.txt"]],
    ["attachment; filename=b; filename*=utf-8'en'a%20b", "attachment", ["a b", "b"]],
    ["attachment; filename*=UTF-8''a; filename=b", "attachment", ["a", "b"]],
    ["attachment; filename*=ISO-8859-1''%E4; filename=b", "attachment", ["b"]],
    ["attachment; filename*=UTF-8''%ff; filename=b", "attachment", ["b"]],
    ["attachment; filename*=a; filename=b", "attachment", ["b"]],
    ['attachment; filename=""', "attachment", []],
  ])("%s", (header, type, fileNames) =>
    expect(parseContentDisposition(header)).toEqual({ type, fileNames }),
  );

  test("the field of a form is its parameter name, not what a file name holds", () => {
    expect(
      parseContentDisposition('form-data; filename="; name=file"; size=7; name="oth\\er"'),
    ).toEqual({ type: "form-data", fileNames: ["; name=file"], fieldName: "other" });
  });

  test.each([
    ["absent", undefined],
    ["absent, as Headers gives it", null],
    ["empty", ""],
    ["a parameter given twice", "attachment; filename=a; filename=b"],
    ["a parameter given twice in other cases", "attachment; filename=a; FILENAME=a"],
    ["an extended parameter given twice", "attachment; filename*=UTF-8''a; filename*=UTF-8''a"],
    ["another parameter given twice", "attachment; a=1; a=2; filename=b"],
    ["two headers joined", "attachment; filename=a, attachment; filename=b"],
    ["no type", "; filename=a"],
    ["no type but a parameter", "filename=a"],
    ["an open quote", 'attachment; filename="a'],
    ["more behind a quote", 'attachment; filename="a"b'],
    ["more behind a token", "attachment; filename=a b"],
    ["no value", "attachment; filename="],
    ["no name", "attachment; =a"],
    ["a path without quotes", "attachment; filename=../x"],
    ["characters that tokens may not have", "attachment; filename=é"],
  ])("ignored as a whole: %s", (_, header) =>
    expect(parseContentDisposition(header)).toBeUndefined(),
  );

  test("a long header costs no more than its length", () => {
    for (const part of [";", "; ", " ", 'a="\\', "a", '"', "=", "\\"])
      expect(parseContentDisposition(`attachment; a="${part.repeat(50_000)}\0`)).toBeUndefined();
  });
});
