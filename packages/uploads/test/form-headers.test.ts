import { expect, test } from "vitest";
import { readHeaders } from "../src/receive/form-reader.ts";

test.for([
  ["a browser, undici and curl", `name="file"; filename="s\u00fc%22.txt"`, 'sü".txt'],
  ["curl --form-escape and Go", `name="file"; filename="a\\"b\\\\c.txt"`, 'a"b\\c.txt'],
  ["aiohttp", `name="file"; filename="s%C3%BC.txt"; filename*=utf-8''s%C3%BC.txt`, "sü.txt"],
  ["urllib3 1.24", `name="file"; filename*=utf-8''s%C3%BC.txt`, "sü.txt"],
  [
    ".NET",
    `name=file; filename="=?utf-8?B?c8O8LnR4dA==?="; filename*=utf-8''s%C3%BC.txt`,
    "sü.txt",
  ],
  ["a browser, with a line break in it,", `name="file"; filename="a%0D%0Ab.txt"`, "a\r\nb.txt"],
  ["a program without blanks", `name="file";filename="a b.txt"`, "a b.txt"],
])("a name is read as %s writes it", ([, parameters, fileName]) => {
  const block = Buffer.from(`content-disposition: form-data; ${parameters}`).toString("latin1");
  expect(readHeaders(block)).toEqual({ fileName, contentType: undefined });
});

test("a name that is not UTF-8 is read as Latin-1", () => {
  const block = 'content-disposition: form-data; name="file"; filename="s\xfc.txt"';
  expect(readHeaders(block).fileName).toBe("sü.txt");
});
