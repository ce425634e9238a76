/**
 * Holds docs/security/threats/ and the tests together: each attack on its pages names tests that exist.
 *
 * A section `## T12: the attack` has a paragraph on the defence and a list of links
 * `- [the exact title](../../../packages/x/test/y.test.ts)`. Requirement ids behind a title and a number that is
 * filled in before it are left out.
 * @module
 */

/** One section of a page. */
export interface Threat {
  /** Such as `T12`. */
  readonly id: string;
  readonly attack: string;
  readonly defence: string;
  readonly proofs: readonly { readonly title: string; readonly file: string }[];
  /** Lines below the defence that are no proof. */
  readonly others: readonly string[];
}

/** The sections of a page that begin with a threat's id. */
export function threatsIn(page: string): Threat[] {
  const sections = page.split(/^## /m).slice(1);
  return sections.flatMap((section) => {
    const [, id, attack, body] = /^(T\d+):? *(.*)\n([\s\S]*)$/.exec(section) ?? [];
    if (id === undefined) return [];
    const lines = body!.split("\n").filter((line) => line !== "");
    const first = lines.findIndex((line) => line.startsWith("- "));
    const [text, list] = first < 0 ? [lines, []] : [lines.slice(0, first), lines.slice(first)];
    const proofs = list.map((line) => /^- \[([^\]]+)\]\((?:\.\.\/){3}([^)#\s]+)\)$/.exec(line));
    return {
      id,
      attack: attack!,
      defence: text.join(" "),
      proofs: proofs.flatMap((found) =>
        found ? { title: found[1]!.replaceAll("\\", ""), file: found[2]! } : [],
      ),
      others: list.filter((_, at) => proofs[at] === null),
    };
  });
}

/** Titles of the tests and groups of a test file, as the pages write them. */
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

/** What is wrong with the pages, one sentence each; `read` gives a file of the repository, if it is there. */
export function checkThreats(
  pages: readonly string[],
  read: (file: string) => string | undefined,
): string[] {
  const threats = pages.flatMap(threatsIn);
  const ids = new Set(threats.map(({ id }) => id));
  const findings = threats.flatMap((_, n) =>
    ids.has(`T${n + 1}`) ? [] : [`T${n + 1} is missing`],
  );
  for (const [at, { id, attack, defence, proofs, others }] of threats.entries()) {
    if (threats.findIndex((threat) => threat.id === id) !== at)
      findings.push(`${id} is there twice`);
    if (attack === "") findings.push(`${id} names no attack`);
    if (defence === "") findings.push(`${id} names no defence`);
    if (proofs.length === 0) findings.push(`${id} cites no test`);
    for (const line of others) findings.push(`${id} has a line that is no proof: ${line}`);
    for (const { title, file } of proofs) {
      const source = /\.test\.m?[jt]s$/.test(file) ? read(file) : undefined;
      if (source === undefined) findings.push(`${id} cites ${file}, which is no test file`);
      else if (!titlesIn(source).has(title))
        findings.push(`${id} cites "${title}", which ${file} does not have`);
    }
  }
  return findings;
}
