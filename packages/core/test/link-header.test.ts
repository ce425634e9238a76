import { expect, test } from "vitest";
import { linkWith, parseLinks } from "../src/headers/link-header.ts";

test.each([
  ["a token", "<a>; rel=stream"],
  ["a quoted string", '<a>;rel="stream"'],
  ["blanks around everything", ' \t< a > ; rel = "stream" '],
  ["a list of relations", '<a>; rel="next  stream\tprev"'],
  ["other letter case", '<a>; REL="Stream"'],
  ["quoted pairs", '<a>; rel="\\s\\t\\ream"'],
  ["a parameter without a value in front", "<a>; crossorigin; rel=stream"],
  ["an empty parameter in front", "<a>;; rel=stream"],
  ["a comma and a semicolon in a quoted value in front", '<a>; title="x, <b>; rel=y"; rel=stream'],
  ["a quote in a quoted value in front", '<a>; title="x\\"; rel=y"; rel=stream'],
  ["a value that is not a token in front", "<a>; type=text/html; rel=stream"],
  ["another link in front", '<b>; rel="next", <a>; rel="stream"'],
  ["a link without parameters in front", "<b>, <a>; rel=stream"],
  ["empty elements in front", ", ,<a>; rel=stream"],
  ["two of them, the first", "<a>; rel=stream, <b>; rel=stream"],
  ["two relations, the first (RFC 8288 §3.3)", "<a>; rel=stream; rel=next"],
  ["an empty anchor", '<a>; rel=stream; anchor=""'],
])("a link is found with %s", (_, header) => {
  expect(linkWith(new Headers({ link: header }), "stream")).toBe("a");
});

test.each([
  ["is absent", ""],
  ["names another relation", "<a>; rel=next"],
  ["names a relation that only begins alike", "<a>; rel=streams"],
  ["has the relation in a second rel", "<a>; rel=next; rel=stream"],
  ["has the relation in another parameter", '<a>; title="rel=stream"'],
  ["has the relation in a quoted value that continues", '<a>; title="\\"; rel=stream"'],
  ["is about another resource", '<a>; rel=stream; anchor="/other"'],
  ["has no target", "rel=stream"],
  ["has a target without an end", "<a; rel=stream"],
  ["follows an invalid link", "x, <a>; rel=stream"],
  ["is longer than 16,384 characters", `<a>; rel=stream; title="${"x".repeat(16_384)}"`],
])("there is no link when the header %s", (_, header) => {
  expect(linkWith(new Headers(header === "" ? {} : { link: header }), "stream")).toBeUndefined();
});

test("a link in front that says nothing keeps its place", () => {
  expect(parseLinks('<>; rel="A b", </x?y=1,2>')).toEqual([
    { target: "", relations: ["a", "b"], hasAnchor: false },
    { target: "/x?y=1,2", relations: [], hasAnchor: false },
  ]);
});
