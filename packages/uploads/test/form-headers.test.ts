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
  ["Windows, with its folder,", `name="file"; filename="D:\\dh\\res\\f.jpg"`, "D:\\dh\\res\\f.jpg"],
  ["Windows, from a share,", `name="file"; filename="\\\\srv\\a\\f.jpg"`, "\\srv\\a\\f.jpg"],
  ["RFC 2047 in base64", `name="file"; filename="=?UTF-8?B?w7xiZXIucGRm?="`, "über.pdf"],
  ["RFC 2047 in Q", `name="file"; filename="=?iso-8859-1?Q?=FCber_uns?="`, "über uns"],
  ["RFC 2047 in two words", `name="file"; filename="=?utf-8?q?a?= =?gbk?b?xOM=?="`, "a你"],
  ["RFC 2047 that is broken", `name="file"; filename="=?utf-8?b?/w==?="`, "=?utf-8?b?/w==?="],
  ["RFC 2047 and more", `name="file"; filename="=?utf-8?q?a?=.txt"`, "=?utf-8?q?a?=.txt"],
  ["a program without blanks", `name="file";filename="a b.txt"`, "a b.txt"],
])("a name is read as %s writes it", ([, parameters, fileName]) => {
  const block = Buffer.from(`content-disposition: form-data; ${parameters}`).toString("latin1");
  expect(readHeaders([block])).toEqual({ fileName, contentType: undefined });
});

test("a name that is not UTF-8 is read as Latin-1", () => {
  const block = 'content-disposition: form-data; name="file"; filename="s\xfc.txt"';
  expect(readHeaders([block]).fileName).toBe("sü.txt");
});

test.for([
  ["Content-Encoding:", true],
  ["Content-Encoding: identity", true],
  ["Content-Encoding: gzip", false],
  ["Content-Transfer-Encoding:", true],
  ["Content-Transfer-Encoding: 8bit", true],
  ["Content-Transfer-Encoding: base64", false],
  ["Content-Type:", true],
] as const)("a part with %s is taken: %s", ([header, isTaken]) => {
  const read = (): string => {
    try {
      return readHeaders([`content-disposition: form-data; name=file; filename=a`, header])
        .fileName;
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(read()).toBe(isTaken ? "a" : "uploads: a part is encoded");
});
