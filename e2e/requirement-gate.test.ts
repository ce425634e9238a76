import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  checkCoverage,
  citationsIn,
  citationsUnder,
  parseRequirements,
  readRequirements,
  type Requirement,
} from "./requirement-gate.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

test("every requirement has a test or a stated exemption, and no test cites an unknown one", () => {
  expect(checkCoverage(readRequirements(), citationsUnder(root))).toEqual([]);
});

test("there is one entry for each of the 56 key words of SEP-2532", () => {
  const counts: Record<string, number> = {};
  for (const { level } of readRequirements().filter(({ id }) => id.startsWith("SEP-2532/")))
    counts[level] = (counts[level] ?? 0) + 1;
  const { STATED: _, ...keyWords } = counts;
  expect(keyWords).toEqual({ MUST: 24, "MUST NOT": 3, SHOULD: 17, "SHOULD NOT": 1, MAY: 11 });
});

const rule: Requirement = {
  id: "SEP-1/1.a/must-b",
  level: "MUST",
  text: "do b",
  side: "server",
};
const cite = (source: string) => citationsIn("x.test.ts", source);

test("a line is a requirement, and an indented line below it an exemption", () => {
  const line = "SEP-1/1.a/must-b  MUST  server  do b";
  expect(parseRequirements(`# 1. a\n\n${line}\n`)).toEqual([rule]);
  expect(parseRequirements(`${line}\n    absent: c\n`)).toEqual([
    { ...rule, exemption: { kind: "absent", reason: "c" } },
  ]);
});

test("a line that is neither is refused, with its text", () => {
  const line = "SEP-1/1.a/must-b  MUST  server  do b";
  for (const wrong of [line.replace("MUST", "MUSTN'T"), line.replace("  do b", ""), "    why: c"])
    expect(() => parseRequirements(`${line}\n${wrong}`)).toThrow(wrong);
  expect(() => parseRequirements("    absent: c")).toThrow("absent: c");
});

test("a requirement without a test is found", () => {
  expect(checkCoverage([rule], [])).toEqual(["SEP-1/1.a/must-b has no test: MUST do b"]);
});

test("a deviation needs a test that shows what happens instead; what cannot arise needs none", () => {
  const reason = "because";
  expect(checkCoverage([{ ...rule, exemption: { kind: "deviation", reason } }], [])).toHaveLength(
    1,
  );
  expect(checkCoverage([{ ...rule, exemption: { kind: "absent", reason } }], [])).toEqual([]);
  expect(checkCoverage([{ ...rule, exemption: { kind: "later", reason } }], [])).toEqual([]);
});

test("a citation of an unknown id is found, with its place", () => {
  expect(checkCoverage([], cite('\ntest("b is done [SEP-1/1.a/must-c]", () => {});'))).toEqual([
    "x.test.ts:2 cites SEP-1/1.a/must-c, which does not exist",
  ]);
});

test("an id that is there twice is found", () => {
  const source = 'test("b [SEP-1/1.a/must-b]", () => {});';
  expect(checkCoverage([rule, rule], cite(source))).toEqual(["SEP-1/1.a/must-b is there twice"]);
});

test("ids of the article and of the specification count as those of a SEP do", () => {
  for (const id of ["MCP/caching/must-say", "ARTICLE/12.1/ranged-reads"])
    expect(cite(`test("b [${id}]", f)`).map((citation) => citation.id)).toEqual([id]);
});

test("titles count, in any quotes and several ids each", () => {
  const sources = [
    'test("b [SEP-1/1.a/must-b]", f)',
    "it('b [SEP-1/1.a/must-b]', f)",
    "test.each(eras)(`b in ${era} [SEP-1/1.a/must-b]`, f)",
  ];
  for (const source of sources)
    expect(cite(source).map(({ id }) => id)).toEqual(["SEP-1/1.a/must-b"]);
  expect(cite('test("b [SEP-1/x/y] [SEP-1/x/z]", f)')).toHaveLength(2);
});

test("comments, tests that never run and ids outside of titles do not count", () => {
  const sources = [
    "const source = `test('b [SEP-1/1.a/must-b]', f)`;",
    'expect(ids).toContain("[SEP-1/1.a/must-b]")',
    'test.each([["[SEP-1/1.a/must-b]"]])("b %s", f)',
    "// [SEP-1/1.a/must-b]",
    "/* test('b [SEP-1/1.a/must-b]', f) */",
    'test.skip("b [SEP-1/1.a/must-b]", f)',
    'test.todo("b [SEP-1/1.a/must-b]")',
  ];
  for (const source of sources) expect(cite(source)).toEqual([]);
});
