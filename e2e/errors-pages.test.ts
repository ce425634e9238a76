import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { errorTable } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { exitCodes, outcomes } from "../packages/cli/src/terminal/exit-code.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const pageOf = (name: string): string =>
  readFileSync(join(root, `docs/reference/errors/${name}.md`), "utf8");

/** Each section of a page by its heading. */
function sectionsOf(page: string): ReadonlyMap<string, string> {
  return new Map(
    page
      .split(/^## /m)
      .slice(1)
      .map((section) => {
        const [heading = "", ...lines] = section.split("\n");
        return [heading, lines.join(" ").replaceAll(/\s+/g, " ")];
      }),
  );
}

/** Codes whose section is missing, or says another exit code than the command has. */
function wrongCodes(page: string): readonly string[] {
  const sections = sectionsOf(page);
  return Object.entries(outcomes)
    .filter(([code, outcome]) => {
      const said = /Exit code (\d+)\.\s*$/.exec(sections.get(code) ?? "")?.[1];
      return said !== String(exitCodes[outcome].status);
    })
    .map(([code]) => code);
}

const sources = ["server", "transport-http", "transport-ws", "resume", "uploads"].flatMap((name) =>
  readdirSync(join(root, `packages/${name}/src`), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => readFileSync(join(root, `packages/${name}/src`, path), "utf8")),
);

/** Each status of a problem, with the reasons that the sources give it, as `status reason`. */
const problems = new Set(
  sources.flatMap((source) => [
    ...[...source.matchAll(/^ {2}(4\d\d|5\d\d): "[A-Z]/gm)].map(([, status]) => `${status} `),
    ...[...source.matchAll(/\bproblem\((4\d\d|5\d\d)(?:, \{\s*reason: "(\w+)")?/g)].map(
      ([, status, reason = ""]) => `${status} ${reason}`,
    ),
    ...[...source.matchAll(/: \[(4\d\d|5\d\d), "[A-Z][\w ]+", "(\w+)"\]/g)].map(
      ([, status, reason]) => `${status} ${reason}`,
    ),
  ]),
);

/** Statuses without a section, and reasons that it does not name. */
function missingProblems(page: string): readonly string[] {
  const sections = sectionsOf(page);
  return [...problems].filter((each) => {
    const [status = "", reason = ""] = each.split(" ");
    const section = sections.get(status);
    return section === undefined || (reason !== "" && !section.includes(`\`${reason}\``));
  });
}

test("each code has a section that ends with the exit code of the command", () => {
  const page = pageOf("codes");
  expect(wrongCodes(page)).toEqual([]);
  expect([...sectionsOf(page).keys()]).toEqual(Object.keys(outcomes));
  expect(wrongCodes(page.replace("## corrupt", "## broken"))).toEqual(["corrupt"]);
  expect(wrongCodes(page.replaceAll("Exit code 3.", "Exit code 9."))).toEqual(["not_found"]);
});

test("the overview links each code to its section", () => {
  const overview = readFileSync(join(root, "docs/reference/errors.md"), "utf8");
  for (const code of Object.keys(outcomes))
    expect(overview).toContain(`| [\`${code}\`](errors/codes.md#${code})`);
});

test("each JSON-RPC reason has a section", () => {
  const headings = [...sectionsOf(pageOf("reasons")).keys()];
  expect(headings.slice(0, -1)).toEqual(Object.keys(errorTable));
});

test("each HTTP status has a section that names the reasons with that status", () => {
  expect(problems.size).toBeGreaterThan(30);
  const page = pageOf("statuses");
  expect(missingProblems(page)).toEqual([]);
  expect(missingProblems(page.replace("## 421", "## 422"))).toEqual(["421 "]);
  expect(missingProblems(page.replaceAll("`digest`", ""))).toEqual(["422 digest"]);
});
