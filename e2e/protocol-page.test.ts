import { readFileSync } from "node:fs";
import { errorTable, EXTENSION_ID } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { readRequirements } from "./requirement-gate.ts";

const pageOf = (name: string): string =>
  readFileSync(new URL(`../docs/protocol/${name}.md`, import.meta.url), "utf8");
const page = pageOf("streaming");

function sectionOf(text: string, heading: RegExp): string {
  const [, section] = text.split(heading);
  return section?.split(/^## /m)[0] ?? "";
}

/** Cells of every body row of the first Markdown table, code marks removed. */
function rowsOf(section: string): string[][] {
  const lines = section.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll("`", "")),
  );
}

function errorRowsIn(text: string): unknown[] {
  return rowsOf(sectionOf(text, /^## Errors$/m)).map(([reason, message, legacy, modern, code]) => [
    reason,
    { message, legacy: Number(legacy), modern: Number(modern), code },
  ]);
}

const exempt = readRequirements()
  .filter(({ exemption }) => exemption)
  .map(({ id }) => id);

test("the error table of the page is the one of the code", () => {
  expect(errorRowsIn(page)).toEqual(Object.entries(errorTable));
});

test("a number that differs in the page is found", () => {
  const twin = page.replace("| -25324 |", "| -25342 |");
  expect(twin).not.toBe(page);
  expect(errorRowsIn(twin)).not.toEqual(Object.entries(errorTable));
});

test("the page lists every requirement of the draft that is not met to the letter, and no other", () => {
  const section = pageOf("departures");
  const listed = [...section.matchAll(/`([\w.-]+\/(?:must|should|may|codes|same)[\w-]*)`/g)];
  expect(listed.map(([, id]) => `SEP-2532/${id}`).toSorted()).toEqual(
    exempt.filter((id) => id.startsWith("SEP-2532/")).toSorted(),
  );
});

test("so it does for those of the article and of the specification", () => {
  const section = pageOf("resources");
  const listed = [...section.matchAll(/`((?:MCP|ARTICLE)\/[\w./-]+)`/g)].map(([, id]) => id!);
  expect(listed.toSorted()).toEqual(
    exempt.filter((id) => /^(?:MCP|ARTICLE)\//.test(id)).toSorted(),
  );
});

test("so it does for those of binary elicitation", () => {
  const section = pageOf("uploads");
  const listed = [...section.matchAll(/`(SEP-1306\/[\w./-]+)`/g)].map(([, id]) => id!);
  expect(listed.toSorted()).toEqual(exempt.filter((id) => id.startsWith("SEP-1306/")).toSorted());
});

test("the page names the extension id of the code", () => {
  expect(page).toContain(`\`${EXTENSION_ID}\``);
});
