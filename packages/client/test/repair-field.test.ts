import { parseContentDisposition } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { repairField } from "../src/net/node/repair-field.ts";

/** `Content-Disposition` as servers write it, and the name that a browser saves under. */
const dispositions: Readonly<Record<string, readonly [field: string, name: string | undefined]>> = {
  "as RFC 6266 has it": ['attachment; filename="a b.txt"', "a b.txt"],
  "with an extended name": [
    `attachment; filename="b.txt"; filename*=UTF-8''na%C3%AFve.txt`,
    "naïve.txt",
  ],
  "in UTF-8": ['attachment; filename="naïve €.txt"', "naïve €.txt"],
  "in UTF-8, without quotes": ["attachment; filename=naïve.txt", "naïve.txt"],
  "in RFC 2047": ['attachment; filename="=?UTF-8?B?bmHDr3ZlLnR4dA==?="', "naïve.txt"],
  "without quotes, with blanks": [
    "attachment; filename=my report final.txt",
    "my report final.txt",
  ],
  "without quotes, before another parameter": ["inline; filename=a b.txt ; size=7", "a b.txt"],
  "as a path of Windows": ['attachment; filename="C:\\Users\\me\\r.txt"', "r.txt"],
  "with an escaped quote": ['attachment; filename="a\\"b.txt"', 'a"b.txt'],
  "without a name": ["attachment", undefined],
  "with an open quote": ['attachment; filename="a', undefined],
  twice: ["attachment; filename=a, attachment; filename=b", undefined],
};

test.each(Object.entries(dispositions))("a name is read %s", (_, [field, name]) => {
  const bytes = Buffer.from(field).toString("latin1");
  const repaired = repairField("Content-Disposition", bytes);
  expect(parseContentDisposition(repaired)?.fileNames[0]).toBe(name);
  // fields of HTTP are bytes
  expect(() => new Headers({ "content-disposition": repaired })).not.toThrow();
});

test("a name that is not UTF-8 stays Latin-1", () => {
  const repaired = repairField("content-disposition", 'attachment; filename="na\xefve.txt"');
  expect(parseContentDisposition(repaired)?.fileNames).toEqual(["naïve.txt"]);
});

test.each([
  ["/d/a%20b?x=1+2", "/d/a%20b?x=1+2"],
  ["/d/a b?x=1 2", "/d/a%20b?x=1%202"],
  ["https://a.example/naïve €.txt", "https://a.example/na%C3%AFve%20%E2%82%AC.txt"],
  // a host that is spelled so is refused where addresses are checked
  ["https://naïve.example/", "https://na%C3%AFve.example/"],
])("a Location of %s leads to %s", (location, target) => {
  expect(repairField("Location", Buffer.from(location).toString("latin1"))).toBe(target);
});

test("other fields stay as they are", () => {
  expect(repairField("x-name", "a b\xff")).toBe("a b\xff");
});
