import { expect, test } from "vitest";
import { checkSource, expressionsIn } from "../check-regexps.mjs";

const link = String.raw`const link = /<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)\s*(?:,|$)/g;`;
const disposition = [
  'const token = "[!#$%&\'*+.^_`|~0-9A-Za-z-]+";',
  "export function read() {",
  "  return new RegExp(",
  '    String.raw`[\\t ]*;[\\t ]*(?:(${token})[\\t ]*=[\\t ]*(?:(${token})|"((?:[^"\\\\]|\\\\.)*)"))?[\\t ]*(?=;|$)`,',
  '    "sy",',
  "  );",
  "}",
].join("\n");

// recheck needs seconds for the real ones
const exponential = [
  "const nested = /^(?:[a-z]+)+$/;",
  ...(process.env["SLUICE_DEEP"] ? [link] : []),
];

test.each(exponential)(
  "an exponential expression is found, with its line and a text that shows it",
  { tags: "slow" },
  async (source) => {
    const [finding] = await checkSource("x.ts", `\n${source}\n`);
    expect(finding).toMatch(/^x\.ts:2: .* is exponential: .*\.repeat\(/);
  },
);

const gaps = 'const gap = "[\\t ]*";\n\nconst gaps = new RegExp(`^${gap}a?${gap}$`);';
const polynomial = [gaps, ...(process.env["SLUICE_DEEP"] ? [disposition] : [])];

test.each(polynomial)(
  "a polynomial expression that is put together of constants is found",
  async (source) => {
    const [finding] = await checkSource("x.ts", source);
    expect(finding).toMatch(/^x\.ts:3: .* is \w+ degree polynomial.*: .*\.repeat\(/);
  },
);

test("a linear expression passes, and so does what only looks like one", async () => {
  const source = 'const a = /^[\\t ]*a$/; // /(a+)+$/\nconst b = "/(a+)+$/";\nconst c = 4 / 2 / 1;';
  expect(await checkSource("x.ts", source)).toEqual([]);
  expect(expressionsIn("x.ts", source)).toEqual([{ line: 1, pattern: "^[\\t ]*a$", flags: "" }]);
});

test("an expression is read out of templates, sums and joined lists", () => {
  const source =
    'const a = "x"; const b = [a, "y"].join("|");\nRegExp(`^${b}` + a + String.raw`\\d`, "i");';
  expect(expressionsIn("x.ts", source)).toEqual([{ line: 2, pattern: "^x|yx\\d", flags: "i" }]);
});

test("an expression that is made of what only a run tells is named", async () => {
  expect(await checkSource("x.ts", "export const f = (a: string) => new RegExp(a);")).toEqual([
    "x.ts:1: new RegExp(a) cannot be read; write a literal, or constants of this file",
  ]);
});
