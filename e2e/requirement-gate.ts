/**
 * Holds requirements and tests together: every requirement has a test or a stated exemption, and
 * every id that a test cites exists.
 *
 * A requirement is a line of a file in `requirements/`: its id, key word, side and text, with two spaces between
 * them. An indented line below it is an exemption. A test cites by its title:
 * `test("HEAD claims nothing [SEP-2532/3.errors/statuses]", …)`. Text elsewhere, such as tests that are written in a
 * literal, cites nothing.
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** One requirement. */
export interface Requirement {
  readonly id: string;
  /** A key word of BCP 14, or `STATED` for tables and sentences that bind without one. */
  readonly level: string;
  readonly side: string;
  /** What it asks, in our words. */
  readonly text: string;
  readonly exemption?: Exemption;
}

/** Why a requirement is not met to the letter. `docs/protocol/departures.md` has one row for each of SEP-2532. */
interface Exemption {
  /**
   * - `deviation`: we do something else on purpose, and tests show what
   * - `absent`: the case it speaks of cannot arise here
   * - `later`: its subject is not built yet
   */
  readonly kind: string;
  readonly reason: string;
}

const entryLine = /^(\S+)  ((?:MUST|SHOULD)(?: NOT)?|MAY|STATED)  (server|client|both)  (\S.*)$/;
const exemptionLine = /^    (deviation|absent|later): (\S.*)$/;

/** The requirements in a text, in its order. Throws an `Error` that names a line which is neither of the two. */
export function parseRequirements(text: string): Requirement[] {
  const requirements: Requirement[] = [];
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, id, level, side, words] = entryLine.exec(line) ?? [];
    const [, kind, reason] = exemptionLine.exec(line) ?? [];
    const last = requirements.at(-1);
    if (id && level && side && words) requirements.push({ id, level, side, text: words });
    else if (kind && reason && last && !last.exemption)
      requirements.splice(-1, 1, { ...last, exemption: { kind, reason } });
    else throw new Error(`not a requirement: ${line}`);
  }
  return requirements;
}

/** Every requirement, of all files of `requirements/`. */
export function readRequirements(): Requirement[] {
  const folder = new URL("requirements/", import.meta.url);
  return readdirSync(folder).flatMap((file) =>
    parseRequirements(readFileSync(new URL(file, folder), "utf8")),
  );
}

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
