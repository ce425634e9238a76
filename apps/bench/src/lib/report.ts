import { mkdir, rm, writeFile } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { GiB } from "./bench.ts";
import { drawBars, drawCurve, drawTraces } from "./drawing.ts";
import type { Summary } from "./statistics.ts";
import { isKept, type Reach, type Table } from "./table.ts";

/** The circumstances of a run, as every report states them. */
export function describeMachine(): string {
  const [cpu] = cpus();
  const processors = `${cpus().length} × ${cpu?.model ?? "unknown processor"}`;
  const memory = `${(totalmem() / GiB).toFixed(0)} GiB`;
  return `Node ${process.version}, ${process.platform} ${process.arch}, ${processors}, ${memory}, loopback, page cache warm`;
}

/** A table as Markdown: medians, with the range and the number of runs where there is more than one. */
export function formatTable(table: Table): string {
  const header = ["", ...table.columns.map((column) => column.title)];
  const rows = table.rows.map((row) => [
    row.absent ? `${row.name} (${row.absent})` : row.name,
    ...table.columns.map((column) => formatSummary(row.cells[column.key], column.digits)),
  ]);
  const lines = [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  const reach = table.reach.map((promise) => `- ${formatReach(promise)}`);
  return [`## ${table.title}`, table.how, lines.join("\n"), reach.join("\n")]
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
  tables: readonly Table[],
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
  for (const table of tables) {
    const images: string[] = [];
    for (const [name, text] of draw(table)) {
      await writeFile(join(drawings, name), text);
      images.push(`![${table.title}](${link}/${name})`);
    }
    parts.push(formatTable(table), ...images);
  }
  await writeFile(page, `${parts.join("\n\n")}\n`);
}

function draw(table: Table): [name: string, svg: string][] {
  const { id, title, columns, traces = [], curves = [] } = table;
  const bars = columns
    .filter((column) => column.bars)
    .map((column): [string, string] => [
      `${id}-${column.key}.svg`,
      drawBars(title, column, table.rows),
    ]);
  const lines = curves.map((curve, n): [string, string] => [
    `${id}-by-count-${n + 1}.svg`,
    drawCurve(title, curve),
  ]);
  const overTime: [string, string][] =
    traces.length > 0 ? [[`${id}-over-time.svg`, drawTraces(title, traces)]] : [];
  return [...bars, ...lines, ...overTime];
}

/** Writes every figure of every table as JSON. */
export async function writeFigures(tables: readonly Table[], path: string): Promise<void> {
  const figures = { machine: describeMachine(), date: new Date().toISOString(), tables };
  await writeFile(path, `${JSON.stringify(figures, null, 1)}\n`);
}

/** The beginning of a page of figures. */
export function introduce(tables: readonly Table[], runs: number): string {
  const promises = tables.flatMap(({ reach }) => reach);
  const kept = promises.filter((promise) => isKept(promise)).length;
  const missed = promises.filter((promise) => isKept(promise) === false).length;
  return `# Performance

<!-- written by \`npm run bench -- --publish\`; change apps/bench instead -->

What Sluice costs beside what people use today, measured in one run of \`npm run bench\` on ${new Date().toISOString().slice(0, 10)}: ${describeMachine()}. Of ${promises.length} promises ${kept} were reached and ${missed} missed; each stands below its table.

## How to read it

- Every server and every client is a process of its own, run as built JavaScript. The clients of servers are outside programs: curl, wrk, aria2.
- Subjects take turns, A B C A B C, ${runs} runs each after one to warm up. A figure is the median, with the range and the number of runs behind it.
- Ratios are taken within a round and then the median of them: absolute figures drift with the machine, ratios hold. "of nginx" means nginx is 1.00 in the same round.
- CPU is the processor time of the server process as the operating system counts it, workers included. Peaks are of resident memory.
- nginx has one worker, as Node has one loop. "Two buffers, no checks" is a bare Node server without tokens, access rules, limits or deadlines: the ceiling that Sluice is held against.
- Times of Sluice's client begin at the call, in a client that is connected; curl and aria2 are started anew.
- A program that is not installed leaves its row empty.

Run it yourself: \`npm run bench\`, with \`-- --quick\` for a first look, \`-- --only serve-large,download\` for some tables and \`-- --help\` for the rest.`;
}
