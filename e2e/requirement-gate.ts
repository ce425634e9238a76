/**
 * Holds requirements and tests together: every requirement has a test or a stated exemption, and
 * every id that a test cites exists.
 *
 * A test cites by its title: `test("HEAD claims nothing [SEP-2532/3.errors/statuses]", …)`. Text elsewhere, such as
 * tests that are written in a literal, cites nothing.
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Requirement } from "./requirements.ts";

/** One id in the title of one test. */
export interface Citation {
  readonly id: string;
  readonly file: string;
  readonly line: number;
}

/** Comments, then string and template literals: whichever starts first owns its text. */
const token =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/g;
const tag = /\[((?:SEP-\d+|MCP|ARTICLE|BINARY)\/[^\]\s]*)\]/g;
const neverRuns = /\.(?:skip|todo)\(\s*$/;
/** What stands before a title: the name of a call that makes tests, or the end of its table. */
const beforeTitle = /(?:\b(?:test|it|describe)(?:\.\w+)*|\))\(\s*$/;

/** Ids cited in the titles of one test file. Comments and tests that never run do not count. */
export function citationsIn(file: string, source: string): Citation[] {
  const citations: Citation[] = [];
  for (const match of source.matchAll(token)) {
    if (match[0].startsWith("/")) continue;
    const before = source.slice(Math.max(0, match.index - 80), match.index);
    if (!beforeTitle.test(before) || neverRuns.test(before)) continue;
    for (const [, id] of match[0].matchAll(tag))
      citations.push({ id: id!, file, line: source.slice(0, match.index).split("\n").length });
  }
  return citations;
}

/** What is wrong between requirements and citations, one sentence each; empty when nothing is. */
export function checkCoverage(
  requirements: readonly Requirement[],
  citations: readonly Citation[],
): string[] {
  const known = new Set(requirements.map(({ id }) => id));
  const cited = new Set(citations.map(({ id }) => id));
  return [
    ...requirements
      .filter(({ id }, i) => requirements.findIndex((other) => other.id === id) !== i)
      .map(({ id }) => `${id} is there twice`),
    ...requirements
      .filter(
        ({ id, exemption }) => !cited.has(id) && (!exemption || exemption.kind === "deviation"),
      )
      .map(({ id, level, text }) => `${id} has no test: ${level} ${text}`),
    ...citations
      .filter(({ id }) => !known.has(id))
      .map(({ id, file, line }) => `${file}:${line} cites ${id}, which does not exist`),
  ];
}

/** Citations in all test files of the workspace at `root`. */
export function citationsUnder(root: string): Citation[] {
  const citations: Citation[] = [];
  for (const group of ["packages", "apps", "e2e"]) {
    for (const file of readdirSync(join(root, group), { withFileTypes: true, recursive: true })) {
      if (!file.isFile() || !file.name.endsWith(".test.ts")) continue;
      const path = join(file.parentPath, file.name);
      if (path.includes("node_modules") || file.name === "requirement-gate.test.ts") continue;
      citations.push(...citationsIn(relative(root, path), readFileSync(path, "utf8")));
    }
  }
  return citations;
}
