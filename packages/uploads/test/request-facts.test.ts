import { expect, test } from "vitest";
import { readFacts } from "../src/receive/request-facts.ts";

const read = (fields: Record<string, string>) => readFacts({ header: (name) => fields[name] });

test("a range of a file is not taken for the whole, whatever the header says", () => {
  for (const range of ["bytes 0-4/10", "bytes */10", "x", ""])
    expect(() => read({ "content-range": range, "content-length": "5" })).toThrow(/Content-Range/);
});

test("bytes that are coded on their way are not taken for those of the file", () => {
  expect(read({ "transfer-encoding": "Chunked" })).toEqual({});
  for (const coding of ["gzip, chunked", "gzip", "chunked, chunked"])
    expect(() => read({ "transfer-encoding": coding })).toThrow(/Transfer-Encoding/);
});

test("only a Content-Encoding with a value says that the body is encoded", () => {
  for (const coding of ["", " ", "identity", "Identity"])
    expect(read({ "content-encoding": coding })).toEqual({});
  for (const coding of ["gzip", "identity, gzip"])
    expect(() => read({ "content-encoding": coding })).toThrow(/Content-Encoding/);
});

test.for([
  ['attachment; filename="D:\\dh\\res\\f.jpg"', "f.jpg"],
  ['attachment; filename="=?UTF-8?B?w7xiZXIucGRm?="', "über.pdf"],
  ['attachment; filename="a\\"b.txt"', "a_b.txt"],
] as const)("the name in %s is %s", ([disposition, name]) => {
  expect(read({ "content-disposition": disposition })).toEqual({ name });
});
