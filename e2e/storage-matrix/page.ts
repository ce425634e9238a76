import type { StorageBackend } from "@sluice/storage";
import { type Finding, conformanceRules } from "@sluice/storage/conformance";

/** A backend and what the conformance kit found. */
export interface Row {
  /** What the page calls it: "fs". */
  readonly name: string;
  /** Of its package: "storage-fs". */
  readonly folder: string;
  /** What the kit ran on. */
  readonly on: string;
  readonly operations: readonly string[];
  readonly findings: readonly Finding[];
}

const operations = [
  "describe",
  "open",
  "list",
  "presign",
  "presignOrigins",
  "watch",
  "write",
  "writeInSteps",
  "remove",
  "freeBytes",
  "close",
] as const;
const groups = [...new Set(conformanceRules.map(({ id }) => groupOf(id)))];

/** The operations that a backend has. */
export function operationsOf(backend: StorageBackend): string[] {
  return operations.filter((name) => backend[name] !== undefined);
}

/** The page. Throws when a rule is broken: a matrix of broken backends is none. */
export function toPage(rows: readonly Row[]): string {
  for (const { name, findings } of rows)
    for (const finding of findings)
      if (finding.outcome === "broken")
        throw new Error(`${name} breaks ${finding.rule.id}`, { cause: finding.error });
  return [
    "# What each storage backend keeps",
    "",
    `Every backend of this repository, held against the ${conformanceRules.length} rules of the [conformance kit](../guides/storage/conformance-kit.md).`,
    "Generated from runs of the kit by `npm run matrix`; `npm run check` runs it again and fails when this page says something else.",
    "",
    "## Operations",
    "",
    table(
      ["", ...rows.map(toLink)],
      [
        ...operations.map((name) => [
          `\`${name}\``,
          ...rows.map((row) => (row.operations.includes(name) ? "✓" : "–")),
        ]),
        ["checked on", ...rows.map(({ on }) => on)],
      ],
    ),
    "",
    "## Rules",
    "",
    "_Kept_ of the rules in each group. A rule that is not kept is absent, with a reason below; none is broken.",
    "",
    table(
      ["", ...rows.map(toLink)],
      [
        ...groups.map((group) => [
          group,
          ...rows.map((row) => toCount(row.findings.filter(({ rule }) => isIn(group, rule.id)))),
        ]),
        ["**all**", ...rows.map(({ findings }) => `**${toCount(findings)}**`)],
      ],
    ),
    "",
    "## What is absent",
    "",
    "Rules about what a service or its backend does not have. Those that its tests cannot bring about stand apart:",
    "they may be kept or not.",
    ...rows.flatMap(toSection),
    "",
  ].join("\n");
}

function toLink(row: Row): string {
  return `[${row.name}](../../packages/${row.folder})`;
}

function toCount(findings: readonly Finding[]): string {
  const kept = findings.filter(({ outcome }) => outcome === "kept").length;
  if (kept === findings.length) return String(kept);
  return kept === 0 ? "–" : `${kept} of ${findings.length}`;
}

function toSection({ name, findings }: Row): string[] {
  const byReason = new Map<string, string[]>();
  for (const finding of findings) {
    if (finding.outcome !== "absent") continue;
    const ids = byReason.get(finding.reason) ?? [];
    byReason.set(finding.reason, [...ids, finding.rule.id]);
  }
  const lines = (isWanted: (reason: string) => boolean): string[] =>
    [...byReason]
      .filter(([reason]) => isWanted(reason))
      .map(([reason, ids]) => wrap(`- ${reason}: ${summarise(ids)}`));
  const unchecked = lines(isUnchecked);
  return [
    "",
    `### ${name}`,
    "",
    ...lines((reason) => !isUnchecked(reason)),
    ...(unchecked.length > 0 ? ["", "Not checked:", "", ...unchecked] : []),
  ];
}

/** A list item in lines that a diff can show. */
function wrap(item: string): string {
  const lines = [""];
  for (const word of item.split(" ")) {
    const line = lines.at(-1)!;
    if (line.length + word.length < 118)
      lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
    else lines.push(`  ${word}`);
  }
  return lines.join("\n");
}

/** A hook that is missing says nothing about the backend, unless the fixture gives a reason. */
function isUnchecked(reason: string): boolean {
  return reason.startsWith("the fixture ");
}

/** The rules by name; a whole group by its own. */
function summarise(ids: readonly string[]): string {
  const whole = groups.filter((group) =>
    conformanceRules.every(({ id }) => !isIn(group, id) || ids.includes(id)),
  );
  const single = ids.filter((id) => !whole.some((group) => isIn(group, id)));
  return [...whole.map((group) => `all of ${group}`), ...single.map((id) => `\`${id}\``)].join(
    ", ",
  );
}

function groupOf(id: string): string {
  return id.slice(0, id.indexOf("-"));
}

function isIn(group: string, id: string): boolean {
  return groupOf(id) === group;
}

/** A Markdown table with columns as wide as their widest cell, as the formatter leaves it. */
function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = head.map((_, n) =>
    Math.max(3, ...[head, ...body].map((cells) => cells[n]?.length ?? 0)),
  );
  const line = (cells: readonly string[], fill: string): string =>
    `| ${cells.map((cell, n) => cell.padEnd(widths[n] ?? 0, fill)).join(" | ")} |`;
  return [
    line(head, " "),
    line(
      head.map(() => ""),
      "-",
    ),
    ...body.map((cells) => line(cells, " ")),
  ].join("\n");
}
