import { expect, test } from "vitest";
import { targetsParsedIn } from "../check-targets.mjs";

const listener = (body) =>
  `import { createServer } from "node:http";\ncreateServer((request, response) => {\n${body}\n});\n`;

test.each([
  'const url = new URL(request.url ?? "/", "http://127.0.0.1");',
  "const url = new URL(request.url);",
  "const url = new URL(`http://host${request.url}`);",
  'const url = new URL("http://host" + request.url);',
  'const target = request.url ?? "/"; const url = new URL(target, base);',
  "const { url } = request; new URL(url!, base);",
  'const { url = "" } = request; new URL(url, base);',
  "files.get(decodeURIComponent(request.url));",
  "new Request(request.originalUrl, {});",
])("a listener that parses a raw target is named: %s", (body) => {
  expect(targetsParsedIn("x.ts", listener(body))).toHaveLength(1);
});

test("the parameters of a listener may be taken apart", () => {
  const source = `import "node:http";\nconst f = ({ url }) => new URL(url, "http://x");\n`;
  expect(targetsParsedIn("x.ts", source.replace('"node:http"', 'a from "node:http"'))).toEqual([
    { line: 2, call: 'new URL(url, "http://x")' },
  ]);
});

test.each([
  'const path = readTarget(request.url ?? "");',
  "const query = new URLSearchParams(request.url);",
  "const url = new URL(endpoint);",
  "const url = URL.parse(request.url, base);",
])("code that does not throw passes: %s", (body) => {
  expect(targetsParsedIn("x.ts", listener(body))).toEqual([]);
});

test("the absolute URL of a web request may be parsed", () => {
  expect(targetsParsedIn("x.ts", "const { host } = new URL(request.url);")).toEqual([]);
});
