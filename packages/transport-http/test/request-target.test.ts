import { readTarget } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { readBase } from "../src/endpoint/router.ts";
import { targetOf } from "../src/endpoint/web-request.ts";

test.each([
  ["/", "/"],
  ["/mcp", "/mcp"],
  ["/mcp/", "/mcp/"],
  ["/MCP", "/MCP"],
  ["/mcp?a=//../%2e", "/mcp"],
  ["/mcp?", "/mcp"],
  ["/m%C3%A9/mcp", "/m%C3%A9/mcp"],
  ["/a.b/..c/d..", "/a.b/..c/d.."],
  ["/mcp/streams/v1.k1.A-_", "/mcp/streams/v1.k1.A-_"],
])("the target %s names the path %s", (target, path) => {
  expect(readTarget(target)).toBe(path);
});

test.each([
  "",
  "*",
  "mcp",
  "http://x/mcp",
  "HTTPS://x/mcp",
  "x:443",
  "?a",
  "#a",
  "//",
  "//mcp",
  "/mcp//",
  "/a//b",
  "//x/mcp?a",
  "/.",
  "/..",
  "/./mcp",
  "/mcp/.",
  "/mcp/..",
  "/a/../mcp",
  "/mcp/../",
  "/%2e/mcp",
  "/%2E%2e/mcp",
  "/a%2fb",
  "/a%2Fb",
  "/a%5cb",
  "/a%5Cb",
  "/a\\b",
  "/\\x/mcp",
  "/mcp?a=\\",
  "/mcp#a",
  "/mcp?a#b",
  "/a b",
  "/a\tb",
  "/a\u0000",
  "/a\u007f",
  "/\u00e9",
  "/a\r\nb",
  "/mcp?\u00e9",
])("the target %j is malformed", (target) => {
  expect(readTarget(target)).toBeUndefined();
});

test("a web request has what follows the authority, as its URL has it", () => {
  const of = (url: string): string => targetOf(new Request(url));
  expect(of("http://x")).toBe("/");
  expect(of("http://x?a")).toBe("/?a");
  expect(of("http://x:1/mcp/../a?b=//c")).toBe("/a?b=//c");
  expect(of("http://x/a#b")).toBe("/a#b");
  expect(targetOf({ url: "http://x/./a" })).toBe("/./a");
});

test("the path of an endpoint has one spelling, or is refused", () => {
  expect(["/", "/mcp", "/mcp/", "/a/b/", "/m%C3%A9"].map(readBase)).toEqual([
    "",
    "/mcp",
    "/mcp",
    "/a/b",
    "/m%C3%A9",
  ]);
  for (const path of [
    "mcp",
    "/a//b",
    "/a//",
    "/../a",
    "/a%2fb",
    "/\u00e9",
    "/a?b",
    '/"',
    "/a\\b",
    "*",
  ])
    expect(() => readBase(path), path).toThrow("as URLs spell it");
});

test("16 KiB of any kind are read in linear time", () => {
  const pumps = ["/", "/.", "/..", "%2", "%2e", "\\", "?", "/a", ".", "%", "/%2", "a"];
  for (const pump of pumps) {
    const target = `/${pump.repeat(16_384 / pump.length)}`;
    const costs = Array.from({ length: 3 }, () => {
      const before = process.cpuUsage();
      readTarget(target);
      targetOf({ url: `http://x${target}` });
      const { user, system } = process.cpuUsage(before);
      return user + system;
    });
    expect(Math.min(...costs), pump).toBeLessThan(5_000);
  }
});
