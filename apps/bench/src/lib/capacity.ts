import { KiB, MiB } from "./bench.ts";
import { describeMachine } from "./report.ts";
import type { Table } from "./table.ts";

const begin = "<!-- written by `npm run bench -- --publish`: begin -->";
const end = "<!-- written by `npm run bench -- --publish`: end -->";

/** Puts what a run says about capacity between the marks of a page. Throws where the page has no marks. */
export function withCapacity(page: string, tables: readonly Table[]): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error("bench: the page of capacity has lost its marks");
  const part = capacityOf(tables);
  return `${page.slice(0, from + begin.length)}\n\n${part}\n\n${page.slice(to)}`;
}

/** How much of memory and of processors is planned with; the rest is for peaks. */
const planned = 0.7;

/** What one server process carries, by kind, from the table of scale of one run. */
function capacityOf(tables: readonly Table[]): string {
  const kinds = kindsOf(tables);
  const head = ["", "KiB each", "in 1 GiB", "CPU µs to make one", "made a second"];
  const rows = kinds.map(({ name, kib, microseconds }) => [
    name,
    kib.toFixed(1),
    Math.floor((planned * MiB) / kib).toLocaleString("en"),
    microseconds.toFixed(0),
    Math.floor((planned * 1e6) / microseconds).toLocaleString("en"),
  ]);
  const lines = [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  const date = new Date().toISOString().slice(0, 10);
  return [
    `Measured on ${date}: ${describeMachine()}. Each where it costs most beside 100 and more; the counts leave ${Math.round((1 - planned) * 100)} % of memory and of one core free.`,
    lines.join("\n"),
    throughputOf(tables),
  ]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** What one more of each kind costs where it costs most, beside 100 and more. */
function kindsOf(
  tables: readonly Table[],
): readonly { name: string; kib: number; microseconds: number }[] {
  const scale = tables.find(({ id }) => id === "scale");
  if (scale === undefined) throw new Error("bench: the run has no table of scale");
  const dearest = new Map<string, { name: string; kib: number; microseconds: number }>();
  for (const { name: row, cells } of scale.rows) {
    const [name = row, count = ""] = row.split(", beside ");
    if (Number(count.replaceAll(",", "")) < 100) continue;
    const before = dearest.get(name);
    const kib = Math.max(cells["kib"]?.median ?? 0, before?.kib ?? 1 / KiB);
    const microseconds = Math.max(cells["microseconds"]?.median ?? 0, before?.microseconds ?? 0.1);
    dearest.set(name, { name, kib, microseconds });
  }
  return [...dearest.values()];
}

/** Bytes and calls a second of one core, where the run has those tables. */
function throughputOf(tables: readonly Table[]): string {
  const cell = (of: string, row: string, key: string): number | undefined =>
    tables.find(({ id }) => id === of)?.rows.find(({ name }) => name === row)?.cells[key]?.median;
  const perGiB = cell("serve-large", "Sluice, download URL", "cpuPerGiB");
  const perCall = cell("small-calls", "Sluice, resources/stream", "cpu");
  const lines = [
    perGiB && `- One core sends ${(planned / perGiB).toFixed(1)} GiB a second of large files.`,
    perCall &&
      `- One core answers ${Math.floor((planned * 1e6) / perCall).toLocaleString("en")} calls a second of \`resources/stream\` for small files.`,
  ];
  return lines.filter(Boolean).join("\n");
}
