import { expect, test } from "vitest";
import { globFilter, pathFilter } from "../src/download/name-filter.ts";
import {
  localPath,
  pathOfReadable,
  readableGlob,
  readableUri,
} from "../src/download/resource-path.ts";

test.each([
  ["*.pdf", ["a.pdf", ".a.pdf"], ["x/a.pdf", "a.pdfx"]],
  ["**/*.pdf", ["a.pdf", "x/y/a.pdf"], ["a.txt"]],
  ["?.txt", ["a.txt"], ["ab.txt"]],
  ["{a,b}/[0-9].txt", ["a/1.txt", "b/2.txt"], ["c/1.txt", "a/x.txt"]],
  ["!a.txt", ["!a.txt"], ["b.txt"]],
  ["+(a).txt", ["+(a).txt"], ["aa.txt"]],
])("the glob %s matches whole paths", (glob, yes, no) => {
  const matches = globFilter(glob);
  expect([...yes, ...no].filter((path) => matches(path))).toEqual(yes);
});

const paths = [
  "a.pdf",
  "b.txt",
  "x/a.pdf",
  "x/y/b.txt",
  "node_modules/m.js",
  "x/node_modules/m.js",
];
test.each([
  ["all", {}, paths],
  ["the end of a path", { include: ["*.pdf"] }, ["a.pdf", "x/a.pdf"]],
  ["a folder and a name", { include: ["y/*"] }, ["x/y/b.txt"]],
  ["from the root", { include: ["/*.pdf"] }, ["a.pdf"]],
  ["without a folder", { exclude: ["node_modules/"] }, paths.slice(0, 4)],
  ["without the one at the root", { exclude: ["/node_modules/"] }, paths.toSpliced(4, 1)],
  [
    "any of some, none of others",
    { include: ["*.pdf", "*.js"], exclude: ["x/**"] },
    ["a.pdf", "node_modules/m.js"],
  ],
] satisfies [string, { include?: string[]; exclude?: string[] }, string[]][])(
  "--include and --exclude choose %s",
  (_, { include, exclude }: { include?: string[]; exclude?: string[] }, wanted) => {
    expect(paths.filter(pathFilter(include, exclude))).toEqual(wanted);
  },
);

test.each([
  ["files://local/My%20Docs/a%2Fb.pdf", "files://local/My Docs/a%2Fb.pdf", "My Docs/a%2Fb.pdf"],
  ["files://local/100%", "files://local/100%", "100%"],
  ["memo:a/b", "memo:a/b", "a/b"],
  ["acme://report.pdf", "acme://report.pdf", ""],
])("%s is read as %s", (uri, readable, path) => {
  expect(readableUri(uri)).toBe(readable);
  expect(pathOfReadable(readable)).toBe(path);
});

test("encoded signs in a glob stand for themselves", () => {
  const matches = globFilter(readableGlob("a%5B1%5D%20*.txt"));
  expect(["a[1] x.txt", "a1 x.txt"].map((path) => matches(path))).toEqual([true, false]);
});

test.each([
  ["a/b.txt", "a/b.txt"],
  ["../../etc/passwd", "download/download/etc/passwd"],
  ["/etc//passwd", "etc/passwd"],
  ["./.ssh/.config", "download/ssh/config"],
  ["..\\..\\x", "_.._x"],
  ["a/-rf/~/b", "a/_rf/_/b"],
  ["a%2F..%2Fb", "a%2F..%2Fb"],
  ["a/\u202etxt.exe", "a/txt.exe"],
])("%s is saved below the output folder as %s", (path, local) => {
  expect(localPath(path)).toBe(local);
});
