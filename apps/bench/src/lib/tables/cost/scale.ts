import { setTimeout as sleep } from "node:timers/promises";
import { GiB, KiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { builtProgram, type ServerProcess } from "../../server-process.ts";
import { downloadUrlOf, startSluiceServer, uriOf } from "../../sluice.ts";
import { createStalledReaders } from "../../stalled-readers.ts";
import { summarise, type Summary } from "../../statistics.ts";
import type { Curve, Experiment, Row, Table } from "../../table.ts";

/** What one more costs where `count` are there. */
export interface OneMore {
  readonly count: number;
  readonly bytes: number;
  readonly microseconds: number;
}

const kinds = ["stream", "session", "subscription", "slot", "grant", "mount"] as const;
type Kind = (typeof kinds)[number];

/** The kernel holds some MiB for each reader that takes nothing; 10,000 would be the kernel's memory and no figure of a server. */
const mostStreams = 1_000;

/** What each costs that a server holds, from the first to the ten thousandth. */
export const scale: Experiment = {
  id: "scale",
  title: "The cost of one more",
  async run(bench: Bench): Promise<Table> {
    const counts = bench.quick ? [1, 10, 100, 1_000] : [1, 10, 100, 1_000, 10_000];
    const seen = new Map<Kind, Map<number, OneMore[]>>();
    for (let round = 0; round < bench.runs; round += 1)
      for (const kind of kinds)
        for (const one of await measure(bench, kind, counts)) {
          const byCount = seen.get(kind) ?? new Map<number, OneMore[]>();
          byCount.set(one.count, [...(byCount.get(one.count) ?? []), one]);
          seen.set(kind, byCount);
        }
    const of = (kind: Kind, count: number, key: "bytes" | "microseconds"): Summary | undefined =>
      summarise((seen.get(kind)?.get(count) ?? []).map((one) => one[key]));
    const rows = kinds.flatMap((kind) =>
      counts.map((count): Row => {
        const name = `${kind}, beside ${count.toLocaleString("en")}`;
        const bytes = seen
          .get(kind)
          ?.get(count)
          ?.map((one) => one.bytes / KiB);
        if (bytes === undefined)
          return { name, absent: "more than the kernel's buffers allow", cells: {} };
        return {
          name,
          cells: { kib: summarise(bytes), microseconds: of(kind, count, "microseconds") },
        };
      }),
    );
    const lastOf = (kind: Kind): number => Math.max(...(seen.get(kind)?.keys() ?? []));
    const bytesOf = (kind: Kind, count: number): number => of(kind, count, "bytes")?.median ?? NaN;
    // some cost less than the pages that memory grows by: a mean holds where single figures do not
    const growth = (kind: Kind): number =>
      bytesOf(kind, lastOf(kind)) /
      mean(counts.filter((count) => count < lastOf(kind)).map((count) => bytesOf(kind, count)));
    const curve = (title: string, key: "bytes" | "microseconds", factor: number): Curve => ({
      title,
      lines: kinds.map((kind) => ({
        name: kind,
        points: counts
          .filter((count) => count <= lastOf(kind))
          .map((count) => [count, (of(kind, count, key)?.median ?? 0) * factor] as const),
      })),
    });
    return {
      how: "What one more takes beside as many as there are: the mean of 500 more (20 streams), or of a tenth. A stream is a download whose reader takes nothing, over a connection of its own: resident memory of the server, and processor time until all buffers are full. The others are made in one process over storage in memory: bytes in use after a collection, and processor time to make one. A session is MCP 2025-11-25 over HTTP, a grant one that was claimed: one that was only made is held by no server. Where memory grows by doubling, as that of a map does, one more costs much or nothing.",
      columns: [
        { key: "kib", title: "KiB", digits: 2 },
        { key: "microseconds", title: "CPU µs", digits: 0 },
      ],
      rows,
      reach: kinds.map((kind) => ({
        claim: `${kind}: bytes of one more beside ${lastOf(kind).toLocaleString("en")}, of the mean of one beside fewer`,
        atMost: 1.5,
        got: summarise([growth(kind)].filter(Number.isFinite)),
      })),
      curves: [
        curve("KiB of one more", "bytes", 1 / KiB),
        curve("CPU µs of one more", "microseconds", 1),
      ],
    };
  },
};

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

async function measure(
  bench: Bench,
  kind: Kind,
  counts: readonly number[],
): Promise<readonly OneMore[]> {
  if (kind === "stream")
    return measureStreams(
      bench,
      counts.filter((count) => count <= mostStreams),
    );
  const args = [builtProgram("scale-server"), kind, JSON.stringify(counts)];
  const { stdout } = await runToEnd(process.execPath, args, {
    signal: bench.signal,
    timeoutMs: 300_000,
  });
  const lines = stdout.trim().split("\n");
  return lines.map((line) => told(bench, kind, JSON.parse(line) as OneMore));
}

async function measureStreams(bench: Bench, counts: readonly number[]): Promise<OneMore[]> {
  const file = await bench.sparseFile(GiB);
  const streams = 2 * counts.at(-1)! + 1_000;
  await using server = await startSluiceServer(bench, { delivery: "downloadUrl", streams });
  const url = await downloadUrlOf(server.endpoint, uriOf(file));
  await using readers = createStalledReaders(url, bench.signal);
  const found: OneMore[] = [];
  let opened = 0;
  for (const count of counts) {
    if (count > opened) await readers.open(count - opened);
    await rest(server, bench.signal);
    const more = Math.max(20, count / 10);
    const before = { bytes: server.rssBytes(), cpu: server.cpuSeconds() };
    await readers.open(more);
    await rest(server, bench.signal);
    opened = Math.max(opened, count) + more;
    const bytes = (server.rssBytes() - before.bytes) / more;
    const microseconds = ((server.cpuSeconds() - before.cpu) * 1e6) / more;
    found.push(told(bench, "stream", { count, bytes, microseconds }));
  }
  return found;
}

/** Waits until a server does nothing: the buffers of a thousand readers take it many seconds to fill. */
async function rest(server: ServerProcess, signal: AbortSignal): Promise<void> {
  for (let looks = 0; looks < 60; looks += 1) {
    const before = server.cpuSeconds();
    await sleep(1_000, undefined, { signal });
    if (server.cpuSeconds() - before <= 0.02) return;
  }
  throw new Error("bench: the server does not come to rest");
}

function told(bench: Bench, kind: Kind, one: OneMore): OneMore {
  const { count, bytes, microseconds } = one;
  bench.say(
    `  ${kind} beside ${count}: ${(bytes / KiB).toFixed(2)} KiB, ${microseconds.toFixed(0)} µs`,
  );
  return one;
}
