import { expect, test } from "vitest";
import { checkWords, habits, habitsIn, proseOf, textsOf } from "../check-words.mjs";

/** By habit: the kind of text, words that have it, and words that say the same without it. */
const pairs = {
  NO_NOUN: ["prose", "a blob that is no base64", "There is no base64: a blob is no longer needed."],
  IS_NONE: ["prose", "a range that is none", "an invalid range; there is none"],
  WHERE_IF: ["string", "undefined, where storage has no size", "undefined if there is no size"],
  OTHER_END: ["prose", "the other end reads on", "both ends read on"],
  SO_MANY: ["comment", "after so many days", "so many that none fits"],
  MOST: ["comment", "/** Most bytes of all results. */", "/** Most of the bytes. */"],
  PARTICIPLE: ["code", "  let told = 0;", "  let toldAt = 0;"],
  ALSO_TOO: ["prose", "refused, also in a batch", "refused, even in a batch"],
  ALONE: ["prose", "on this machine alone", "only on this machine"],
  PHRASAL: ["prose", "a save that broke off", "an interrupted save, sent over HTTP"],
  PERSON: ["prose", "the tool hears nothing", "the tool receives nothing"],
  TITLE: ["title", "that open are none", "reports nothing for links that open"],
};

test("each habit is found, and its correct form is not", () => {
  expect(Object.keys(pairs)).toEqual(habits.map(({ name }) => name));
  for (const [name, [kind, wrong, right]] of Object.entries(pairs)) {
    expect(habitsIn(kind, wrong)).toMatchObject([{ name }]);
    expect(habitsIn(kind, right)).toEqual([]);
  }
});

test("a habit across two lines is found at the line where its paragraph begins", () => {
  const page = "# Title\n\n- one item\n  is fine\n- a blob that\n  is no\n  base64\n";
  expect(checkWords("a.md", page)).toEqual([
    expect.stringMatching(/^a\.md:5: "is no base" \(NO_NOUN\): /),
  ]);
  expect(checkWords("a.md", page, [["a.md", "is no base"]])).toEqual([]);
  expect(checkWords("a.md", page, [["b.md", "is no base"]])).toHaveLength(1);
});

test("titles of tests are read, and no other texts of a source that is not held", () => {
  const source = [
    'test("of two, one does", () => {});',
    'test.skipIf(off).each([1])("over %i, it does", () => {});',
    "it(`that ${one} is none`, () => {});",
    'describe("over HTTP", () => {});',
    'log("of two, one");',
    "// a blob that is no base64",
  ].join("\n");
  const lines = checkWords("e2e/a.test.ts", source, [], ["title"]).map((finding) =>
    finding.slice(0, 20),
  );
  expect(lines).toEqual([1, 2, 3].map((line) => expect.stringContaining(`a.test.ts:${line}:`)));
});

test("code and cited titles of tests on a page are not read", () => {
  const title = "- [a blob that is no base64](../../x.test.ts)";
  const page = `\`is no base64\`\n\n${title}\n\n\`\`\`sh\n# is no shell\n\`\`\`\n\n| a | is no row |\n`;
  expect(checkWords("a.md", page)).toEqual([expect.stringContaining("a.md:9: ")]);
});

test("headings and rows stand alone", () => {
  const texts = proseOf("# One\nTwo\n| three |\n| four |\n\nfive\nsix\n").map(({ text }) => text);
  expect(texts).toEqual(["# One", "Two", "| three |", "| four |", "five six"]);
});

test("comments and strings of a source are read, and code outside of tests", () => {
  const source = [
    "/**",
    " * Where the chunk ends.",
    " *",
    " * Most bytes of it.",
    " */",
    "const told = `a blob that ${is} no base64`; // a blob that is",
    "// no base64",
    'fail("a blob that is no base64");',
    'const text = "const told";',
  ].join("\n");
  const found = ["MOST", "NO_NOUN", "NO_NOUN", "PARTICIPLE"];
  const names = (file) =>
    checkWords(file, source)
      .map((finding) => /\((\w+)\)/.exec(finding)[1])
      .toSorted();
  expect(names("packages/x/src/a.ts")).toEqual(found);
  expect(names("packages/x/test/a.test.ts")).toEqual(found.slice(0, -1));
  expect(textsOf("a.ts", "// one\n// two\n\n// three\n").slice(0, 2)).toEqual([
    { kind: "comment", line: 1, text: "/** one two" },
    { kind: "comment", line: 4, text: "/** three" },
  ]);
});
