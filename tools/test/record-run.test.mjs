import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { draw, screensOf, spansOf } from "../record-run.mjs";

const chunks = [
  { at: 0, text: "$ sluice get\n" },
  { at: 100, text: "\r 10%\u001b[K" },
  { at: 200, text: "\r 90%\u001b[K" },
  { at: 300, text: "\r\u001b[Kdone\r\n" },
];

test("a bar is drawn over its own line, and its last state is what follows it", () => {
  expect(screensOf(chunks).map(({ lines }) => lines[1])).toEqual(["", " 10%", " 90%", "done"]);
  expect(spansOf(screensOf(chunks))).toEqual([
    { row: 0, text: "$ sluice get", from: 0 },
    { row: 1, text: " 10%", from: 100, until: 200 },
    { row: 1, text: " 90%", from: 200, until: 300 },
    { row: 1, text: "done", from: 300 },
  ]);
});

test("without animation a picture shows the last screen", () => {
  const svg = draw(spansOf(screensOf(chunks)), "a < b");
  const resting = svg.split("\n").filter((line) => /^<text(?!.*visibility="hidden")/.test(line));
  expect(resting.map((line) => />([^<]+)</.exec(line)?.[1])).toEqual(["$ sluice get", "done"]);
  expect(svg).toContain("<title>a &lt; b</title>");
});

test("the recorded run resumes, in at most 100 KiB", () => {
  const svg = readFileSync("docs/run.svg", "utf8");
  expect(svg.length).toBeLessThan(100 * 1024);
  expect(svg).toContain("of an earlier run");
  expect(readFileSync("README.md", "utf8")).toContain("](docs/run.svg)");
});
