import { expect, test } from "vitest";
import { pageText, sidebarOf } from "../build-site.mjs";
import { anchorsOf } from "../check-links.mjs";
import { markdown } from "../site-markdown.mjs";

const pages = new Set(["README.md", "docs/a.md", "docs/b/README.md"]);
const textOf = (text) => pageText("docs/a.md", text, pages, "https://github.com/o/n");

test("links between pages stay in the site, and others lead to the repository", () => {
  expect(
    textOf("[r](../README.md#x) [b](b/README.md) [b](b) [s](#here) [w](https://w.example)"),
  ).toBe(
    "[r](/index.md#x) [b](/docs/b/index.md) [b](/docs/b/index.md) [s](#here) [w](https://w.example)",
  );
  expect(textOf("[c](../e2e/a.ts) [d](decisions) ![p](p.svg)")).toBe(
    "[c](https://github.com/o/n/blob/main/e2e/a.ts) [d](https://github.com/o/n/tree/main/docs/decisions) ![p](p.svg)",
  );
});

test("fences stay as they are, and comments are left out", () => {
  expect(textOf("a <!-- note -->b\n```md\n[c](d.md) <!-- kept -->\n```\n")).toBe(
    "a b\n```md\n[c](d.md) <!-- kept -->\n```\n",
  );
});

test("headings have the anchors of GitHub", () => {
  const headings = ["`not_found`", "S3, presigned", "What a “clean” end means: C#", "Ünï 1.2"];
  const slugs = headings.map((heading) => markdown.anchor.slugify(heading));
  expect(slugs).toEqual(headings.flatMap((heading) => [...anchorsOf(`# ${heading}`)]));
});

test("the sidebar is the table of contents", () => {
  expect(sidebarOf("# D\n\n## Start\n\n- [a page](a.md), [b](b/README.md#x)\n")).toEqual([
    {
      text: "Start",
      collapsed: true,
      items: [
        { text: "A page", link: "/docs/a.md" },
        { text: "B", link: "/docs/b/index.md" },
      ],
    },
  ]);
});
