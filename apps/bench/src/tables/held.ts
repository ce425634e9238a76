/** Tables of what a server holds: one more of each kind, and requests that wait. */
import { once } from "node:events";
import { request, type ClientRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { GiB, KiB, type Bench } from "../lib/bench.ts";
import { createStalledReaders } from "../lib/load.ts";
import { builtProgram, runToEnd, startNodeServer, type ServerProcess } from "../lib/processes.ts";
import type { OneMore } from "../lib/program.ts";
import { downloadUrlOf, startSluiceServer, uriOf } from "../lib/sluice.ts";
import { across, summarise, type Sample } from "../lib/statistics.ts";
import {
  beside,
  each,
  takeTurns,
  type Curve,
  type MeasuredSubject,
  type Quantity,
  type Samples,
  type Subject,
  type TableSpec,
} from "../lib/table.ts";

const kinds = ["stream", "session", "subscription", "slot", "grant", "mount"] as const;
type Kind = (typeof kinds)[number];

/** The kernel holds some MiB for each reader that takes nothing; 10,000 would be the kernel's memory and no figure of a server. */
const mostStreams = 1_000;
const countsOf = (bench: Bench, kind?: Kind): readonly number[] =>
  [1, 10, 100, 1_000, ...(bench.quick ? [] : [10_000])].filter(
    (count) => kind !== "stream" || count <= mostStreams,
  );
const rowOf = (kind: Kind, count: number): string =>
  `${kind}, beside ${count.toLocaleString("en")}`;
const medianOf = (samples: Samples, name: string, key: string): number =>
  across(samples.get(name), key)?.median ?? Number.NaN;

/** What the last costs, of the mean before it: some cost less than the pages that memory grows by. */
const growth: Quantity = (last, samples) => {
  const [kind = ""] = last.split(", ");
  const before = [...samples.keys()].filter((name) => name.startsWith(`${kind},`) && name !== last);
  const sum = before.reduce((total, name) => total + medianOf(samples, name, "bytes"), 0);
  const got = medianOf(samples, last, "bytes") / (sum / before.length);
  return summarise([got].filter(Number.isFinite));
};

/** What each costs that a server holds, from the first to the ten thousandth. */
export const scale: TableSpec = {
  id: "scale",
  title: "The cost of one more",
  how: "What one more takes beside as many as there are: the mean of 500 more (20 streams), or of a tenth. A stream is a download whose reader takes nothing, over a connection of its own: resident memory of the server, and processor time until all buffers are full. The others are made in one process over storage in memory: bytes in use after a collection, and processor time to make one. A session is MCP 2025-11-25 over HTTP, a grant one that was claimed: one that was only made is held by no server. Where memory grows by doubling, as that of a map does, one more costs much or nothing.",
  columns: [
    { key: "kib", title: "KiB", digits: 2, is: each("bytes", 1 / KiB) },
    { key: "microseconds", title: "CPU µs", digits: 0, is: each("microseconds") },
  ],
  promises: (bench) =>
    kinds.map((kind) => {
      const last = countsOf(bench, kind).at(-1)!;
      return {
        claim: `${kind}: bytes of one more beside ${last.toLocaleString("en")}, of the mean of one beside fewer`,
        of: rowOf(kind, last),
        is: growth,
        atMost: 1.5,
      };
    }),
  async measure(bench) {
    const samples = new Map<string, Sample[]>();
    for (let round = 0; round < bench.runs; round += 1)
      for (const kind of kinds)
        for (const { count, ...cost } of await measureKind(bench, kind)) {
          const name = rowOf(kind, count);
          samples.set(name, [...(samples.get(name) ?? []), cost]);
        }
    const subjects = kinds.flatMap((kind) =>
      countsOf(bench).map((count): MeasuredSubject => {
        const own = samples.get(rowOf(kind, count));
        const absent = own ? undefined : "more than the kernel's buffers allow";
        return { name: rowOf(kind, count), absent, samples: own ?? [] };
      }),
    );
    const curve = (title: string, key: string, factor: number): Curve => ({
      title,
      lines: kinds.map((kind) => ({
        name: kind,
        points: countsOf(bench, kind).map(
          (count) => [count, medianOf(samples, rowOf(kind, count), key) * factor] as const,
        ),
      })),
    });
    return {
      subjects,
      curves: [
        curve("KiB of one more", "bytes", 1 / KiB),
        curve("CPU µs of one more", "microseconds", 1),
      ],
    };
  },
};

async function measureKind(bench: Bench, kind: Kind): Promise<readonly OneMore[]> {
  const counts = countsOf(bench, kind);
  const say = (one: OneMore): OneMore => {
    const { count, bytes, microseconds } = one;
    bench.say(
      `  ${kind} beside ${count}: ${(bytes / KiB).toFixed(2)} KiB, ${microseconds.toFixed(0)} µs`,
    );
    return one;
  };
  if (kind === "stream") return (await measureStreams(bench, counts)).map(say);
  const args = [builtProgram("scale-server"), kind, JSON.stringify(counts)];
  const options = { signal: bench.signal, timeoutMs: 300_000 };
  const { stdout } = await runToEnd(process.execPath, args, options);
  const lines = stdout.trim().split("\n");
  return lines.map((line) => say(JSON.parse(line) as OneMore));
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
    found.push({ count, bytes, microseconds });
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

const reasons = { work: "for its result", ask: "for the client" } as const;
type Tool = keyof typeof reasons;
const servers = { sdk: "the SDK alone", sluice: "Sluice, resumable" } as const;
type Server = keyof typeof servers;
const waitName = (server: Server, tool: Tool): string =>
  `${servers[server]}, waits ${reasons[tool]}`;
const ofSdk = beside((name) => name.replace(servers.sluice, servers.sdk), "bytes");
const waitCount = (bench: Bench): number => (bench.quick ? 200 : 2_000);

/** What a request holds that waits. */
export const waiting: TableSpec = {
  id: "waiting",
  title: "Memory of a request that waits",
  how: (bench) =>
    `${waitCount(bench)} calls of one session, each over a connection of its own, to a server process that is fresh each time: growth of what is in use after a collection, and of resident memory, by call. The SDK alone holds the connection and resumes from an event store in memory; Sluice sends the client away (\`holdMs: 0\`) and keeps the stream.`,
  columns: [
    { key: "kib", title: "KiB each", digits: 1, bars: true, is: each("bytes", 1 / KiB) },
    { key: "ofSdk", title: "× the SDK", digits: 2, is: ofSdk },
    { key: "resident", title: "resident KiB each", digits: 1, is: each("resident", 1 / KiB) },
    { key: "sockets", title: "connections held", digits: 0, is: each("connections") },
  ],
  promises: (["work", "ask"] as const).map((tool) => ({
    claim: `waits ${reasons[tool]}: bytes of the SDK's own`,
    of: waitName("sluice", tool),
    is: ofSdk,
    atMost: 1.3,
  })),
  async measure(bench) {
    const subjects = (["work", "ask"] as const).flatMap((tool) =>
      (["sdk", "sluice"] as const).map((server): Subject => ({
        name: waitName(server, tool),
        measure: () => measureWaiting(bench, server, tool),
      })),
    );
    return { subjects: await takeTurns(bench, subjects) };
  },
};

async function measureWaiting(bench: Bench, way: Server, tool: Tool): Promise<Sample> {
  const count = waitCount(bench);
  await using server = await startNodeServer("waiting-server", [way], bench);
  const origin = `http://127.0.0.1:${server.ready.port}`;
  const session = await openSession(`${origin}/mcp`);
  const held = new Set<ClientRequest>();
  const used = async (): Promise<number> => Number(await (await fetch(`${origin}/memory`)).text());
  try {
    // what is made once, and code that is compiled on the way, is no part of a request
    await callMany(origin, session, { held, name: tool, from: 10, count: 100 });
    const before = { bytes: await used(), resident: server.rssBytes() };
    await callMany(origin, session, { held, name: tool, from: 1_000, count });
    await sleep(200, undefined, { signal: bench.signal });
    return {
      bytes: ((await used()) - before.bytes) / count,
      resident: (server.rssBytes() - before.resident) / count,
      connections: held.size,
    };
  } finally {
    for (const call of held) call.destroy();
  }
}

const accept = "application/json, text/event-stream";

async function openSession(url: string): Promise<Readonly<Record<string, string>>> {
  const headers = { accept, "content-type": "application/json" };
  const params = {
    protocolVersion: "2025-11-25",
    clientInfo: { name: "bench", version: "0.0.0" },
    capabilities: { elicitation: { form: {} } },
  };
  const post = (message: object, more: object = {}): Promise<Response> =>
    fetch(url, {
      method: "POST",
      headers: { ...headers, ...more },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
  const opened = await post({ id: 0, method: "initialize", params });
  await opened.text();
  const session = {
    "mcp-session-id": opened.headers.get("mcp-session-id") ?? "",
    "mcp-protocol-version": "2025-11-25",
  };
  await post({ method: "notifications/initialized" }, session);
  return session;
}

interface Calls {
  /** Connections that are open. */
  readonly held: Set<ClientRequest>;
  readonly name: string;
  readonly from: number;
  readonly count: number;
}

/** Makes calls that wait, 20 at a time; each is under way when its answer has begun. */
async function callMany(
  origin: string,
  session: Readonly<Record<string, string>>,
  { held, name, from, count }: Calls,
): Promise<void> {
  const call = async (id: number): Promise<void> => {
    const headers = { ...session, accept, "content-type": "application/json" };
    const asked = request(`${origin}/mcp`, { method: "POST", headers, agent: false });
    held.add(asked);
    asked.on("error", () => {}).on("close", () => void held.delete(asked));
    asked.end(JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name } }));
    const [answer] = (await once(asked, "response")) as [NodeJS.ReadableStream];
    answer.on("error", () => {}).resume();
  };
  for (let at = from; at < from + count; at += 20)
    await Promise.all(Array.from({ length: 20 }, (_, n) => call(at + n)));
}
