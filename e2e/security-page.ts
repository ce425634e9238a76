/**
 * Holds docs/security/threats.md and the tests together: each row of the table names tests that exist.
 *
 * A row cites by links: `[the exact title](../../packages/x/test/y.test.ts)`. Requirement ids behind a title and a
 * number that is filled in before it are left out.
 * @module
 */

/** One row of the table. */
export interface ThreatRow {
  /** Such as `T12`. */
  readonly id: string;
  readonly proofs: readonly { readonly title: string; readonly file: string }[];
}

/** Rows of every table whose first column is a threat's id. */
export function threatRowsIn(page: string): ThreatRow[] {
  return [...page.matchAll(/^\| *(T\d+) *\|.*\|([^|\n]*)\|$/gm)].map(([, id, proof]) => ({
    id: id!,
    proofs: [...proof!.matchAll(/\[([^\]]+)\]\((?:\.\.\/){2}([^)#\s]+)\)/g)].map(
      ([, title, file]) => ({
        title: title!.replaceAll("\\", ""),
        file: file!,
      }),
    ),
  }));
}

/** Titles of the tests and groups of a test file, as the page writes them. */
export function titlesIn(source: string): Set<string> {
  const call =
    /\b(?:test|describe)\b(?:\.(?!skip\b|todo\b)\w+)*(?:<[\s\S]{0,80}?>)?(?:\((?:(?!\b(?:test|describe)\b)[\s\S])*?\))??\(\s*("(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)\s*,/g;
  return new Set(
    [...source.matchAll(call)].map(([, literal]) =>
      literal!
        .slice(1, -1)
        .replaceAll(/\\(.)/g, "$1")
        .replace(/^\$\{[^}]*\} /, "")
        .replaceAll(/ \[(?:SEP-|MCP\/|ARTICLE\/|BINARY\/)[^\]]*\]/g, ""),
    ),
  );
}

/** What is wrong with the page, one sentence each; `read` gives a file of the repository, if it is there. */
export function checkSecurityPage(
  page: string,
  read: (file: string) => string | undefined,
): string[] {
  const rows = threatRowsIn(page);
  const findings: string[] = [];
  for (const [at, { id, proofs }] of rows.entries()) {
    if (rows.findIndex((row) => row.id === id) !== at) findings.push(`${id} is there twice`);
    if (proofs.length === 0) findings.push(`${id} cites no test`);
    for (const { title, file } of proofs) {
      const source = /\.test\.m?[jt]s$/.test(file) ? read(file) : undefined;
      if (source === undefined) findings.push(`${id} cites ${file}, which is no test file`);
      else if (!titlesIn(source).has(title))
        findings.push(`${id} cites "${title}", which ${file} does not have`);
    }
  }
  return findings;
}
