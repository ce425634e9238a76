import { mkdir, rm, writeFile } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { GiB } from "./bench.ts";
import { drawBars, drawCurve, drawTraces } from "./drawing.ts";
import type { Summary } from "./statistics.ts";
import { isKept, type Experiment, type Reach, type Table } from "./table.ts";

/** An experiment and what it found. */
export interface Finding {
  readonly experiment: Experiment;
  readonly table: Table;
}

/** The circumstances of a run, as every report states them. */
export function describeMachine(): string {
  const [cpu] = cpus();
  const processors = `${cpus().length} × ${cpu?.model ?? "unknown processor"}`;
  const memory = `${(totalmem() / GiB).toFixed(0)} GiB`;
  return `Node ${process.version}, ${process.platform} ${process.arch}, ${processors}, ${memory}, loopback, page cache warm`;
}

/** A table as Markdown: medians, with the range and the number of runs where there is more than one. */
export function formatTable({ experiment, table }: Finding): string {
  const header = ["", ...table.columns.map((column) => column.title)];
  const rows = table.rows.map((row) => [
    row.absent ? `${row.name} (${row.absent})` : row.name,
    ...table.columns.map((column) => formatSummary(row.cells[column.key], column.digits)),
  ]);
  const lines = [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  const reach = table.reach.map((promise) => `- ${formatReach(promise)}`);
  return [`## ${experiment.title}`, table.how, lines.join("\n"), reach.join("\n")]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** "claim: got (wanted; verdict)" in one line; below one that is missed, where the floor is and where the time goes. */
export function formatReach(reach: Reach): string {
  const wanted =
    reach.atLeast === undefined ? `at most ${reach.atMost}` : `at least ${reach.atLeast}`;
  const kept = isKept(reach);
  const verdict = kept === undefined ? "not measured" : kept ? "reached" : "**missed**";
  const line = `${reach.claim}: ${formatSummary(reach.got, 2) || "–"} (${wanted}; ${verdict})`;
  if (kept !== false || reach.floor === undefined) return line;
  const { got, profile } = reach.floor;
  const floor = got === undefined ? "" : `The least program gets ${formatSummary(got, 2)}. `;
  return `${line}\n  - ${floor}${profile}`;
}

function formatSummary(summary: Summary | undefined, digits: number): string {
  if (summary === undefined) return "";
  const { median, min, max, n } = summary;
  if (n === 1) return median.toFixed(digits);
  return `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)}, n=${n})`;
}

/**
 * Writes a page of all tables to `page`, with its drawings in `drawings`, a directory that is
 * emptied first and that the page calls `link`. `introduction` comes before the first table.
 */
export async function writePage(
  findings: readonly Finding[],
  page: string,
  {
    drawings,
    link,
    introduction,
  }: { readonly drawings: string; readonly link: string; readonly introduction: string },
): Promise<void> {
  await rm(drawings, { recursive: true, force: true });
  await mkdir(drawings, { recursive: true });
  const parts = [introduction];
  for (const finding of findings) {
    const { title } = finding.experiment;
    const images: string[] = [];
    for (const [name, text] of draw(finding)) {
      await writeFile(join(drawings, name), text);
      images.push(`![${title}](${link}/${name})`);
    }
    parts.push(formatTable(finding), ...images);
  }
  await writeFile(page, `${parts.join("\n\n")}\n`);
}

function draw({ experiment, table }: Finding): [name: string, svg: string][] {
  const { id, title } = experiment;
  const bars = table.columns
    .filter((column) => column.bars)
    .map((column): [string, string] => [
      `${id}-${column.key}.svg`,
      drawBars(title, column, table.rows),
    ]);
  const { traces = [], curves = [] } = table;
  const lines = curves.map((curve, n): [string, string] => [
    `${id}-by-count-${n + 1}.svg`,
    drawCurve(title, curve),
  ]);
  const overTime: [string, string][] =
    traces.length > 0 ? [[`${id}-over-time.svg`, drawTraces(title, traces)]] : [];
  return [...bars, ...lines, ...overTime];
}

/** Writes every figure of every table as JSON. */
export async function writeFigures(findings: readonly Finding[], path: string): Promise<void> {
  const tables = findings.map(({ experiment: { id, title }, table }) => ({ id, title, ...table }));
  const figures = { machine: describeMachine(), date: new Date().toISOString(), tables };
  await writeFile(path, `${JSON.stringify(figures, null, 1)}\n`);
}
