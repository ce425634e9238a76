import { request, type ClientRequest } from "node:http";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { KiB, type Bench } from "../../bench.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { startNodeServer } from "../../server-process.ts";
import { across, ratio } from "../../statistics.ts";
import type { Experiment, Row, Table } from "../../table.ts";

const tools = { work: "for its result", ask: "for the client" } as const;
const nameOf = (way: string, tool: keyof typeof tools): string =>
  `${way === "sdk" ? "the SDK alone" : "Sluice, resumable"}, waits ${tools[tool]}`;

/** What a request holds that waits. */
export const waiting: Experiment = {
  id: "waiting",
  title: "Memory of a request that waits",
  async run(bench: Bench): Promise<Table> {
    const count = bench.quick ? 200 : 2_000;
    const kinds = Object.keys(tools) as (keyof typeof tools)[];
    const subjects = kinds.flatMap((tool) =>
      ["sdk", "sluice"].map((way): Subject => ({
        name: nameOf(way, tool),
        measure: () => measure(bench, way, tool, count),
      })),
    );
    const samples = await interleave(subjects, {
      runs: bench.runs,
      onRun: (name, _round, { bytes }) =>
        bench.say(`  ${name}: ${(bytes! / KiB).toFixed(1)} KiB each`),
    });
    const of = (tool: keyof typeof tools) =>
      ratio(samples.get(nameOf("sluice", tool)), samples.get(nameOf("sdk", tool)), "bytes");
    const rows = kinds.flatMap((tool) =>
      ["sdk", "sluice"].map((way): Row => {
        const own = samples.get(nameOf(way, tool));
        const base = samples.get(nameOf("sdk", tool));
        return {
          name: nameOf(way, tool),
          cells: {
            kib: across(own, "bytes", 1 / KiB),
            ofSdk: ratio(own, base, "bytes"),
            resident: across(own, "resident", 1 / KiB),
            sockets: across(own, "connections"),
          },
        };
      }),
    );
    return {
      how: `${count} calls of one session, each over a connection of its own, to a server process that is fresh each time: growth of what is in use after a collection, and of resident memory, by call. The SDK alone holds the connection and resumes from an event store in memory; Sluice sends the client away (\`holdMs: 0\`) and keeps the stream.`,
      columns: [
        { key: "kib", title: "KiB each", digits: 1, bars: true },
        { key: "ofSdk", title: "× the SDK", digits: 2 },
        { key: "resident", title: "resident KiB each", digits: 1 },
        { key: "sockets", title: "connections held", digits: 0 },
      ],
      rows,
      reach: kinds.map((tool) => ({
        claim: `waits ${tools[tool]}: bytes of the SDK's own`,
        atMost: 1.3,
        got: of(tool),
      })),
    };
  },
};

async function measure(bench: Bench, way: string, tool: string, count: number) {
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
