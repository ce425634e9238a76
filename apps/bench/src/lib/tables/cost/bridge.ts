import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bench } from "../../bench.ts";
import { interleave } from "../../interleave.ts";
import { across, quantile, summarise, type Sample } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

const require = createRequire(import.meta.url);
const fileOf = (name: string, path: string): string =>
  join(dirname(require.resolve(`${name}/package.json`)), path);

const calls = 800;
const warmUp = 300;

/** What a host waits for and what it holds with a bridge between it and a server. */
export const bridge: Experiment = {
  id: "bridge",
  title: "Bridges in front of a server",
  async run(bench: Bench): Promise<Table> {
    const server = createPlainServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
    const sluice = [fileOf("@sluice/cli", "dist/main.js"), "bridge", url];
    const programs = {
      "sluice bridge": sluice,
      "sluice bridge with folders": [...sluice, "--save-to", folder, "--send-from", folder],
      "mcp-remote": [fileOf("mcp-remote", "dist/proxy.js"), url, "--allow-http"],
    };
    try {
      const samples = await interleave(
        [
          { name: "no bridge", measure: () => measureDirect(url) },
          ...Object.entries(programs).map(([name, args]) => ({
            name,
            measure: () => measureBridge(args),
          })),
        ],
        {
          runs: bench.runs,
          onRun: (name, _round, sample) => bench.say(`  ${name}: ${format(sample)}`),
        },
      );
      const of = (name: string, key: string) => across(samples.get(name), key);
      const median = (name: string, key: string): number => of(name, key)?.median ?? Number.NaN;
      const ratio = (name: string, key: string, less = 0): number =>
        (median(name, key) - less) / (median("mcp-remote", key) - less);
      const direct = median("no bridge", "call");
      return {
        how: `A host over stdin and stdout, a server that answers at once, a process each run: the median of ${calls - warmUp} small calls one after the other, memory (proportional set size) 3 s after the first call, time until initialize is answered.`,
        columns: [
          { key: "call", title: "call, ms", digits: 2, bars: true },
          { key: "memory", title: "idle memory, MiB", digits: 0, bars: true },
          { key: "start", title: "start, ms", digits: 0 },
        ],
        rows: [...samples.keys()].map((name) => ({
          name,
          cells:
            name === "no bridge"
              ? { call: of(name, "call") }
              : { call: of(name, "call"), memory: of(name, "memory"), start: of(name, "start") },
        })),
        reach: ["sluice bridge", "sluice bridge with folders"].flatMap((name) => [
          {
            claim: `added time of a small call through ${name}, beside that of mcp-remote`,
            atMost: 1.3,
            got: summarise([ratio(name, "call", direct)]),
          },
          {
            claim: `idle memory of ${name}, beside that of mcp-remote`,
            atMost: 1.1,
            got: summarise([ratio(name, "memory")]),
          },
        ]),
      };
    } finally {
      server.close();
      server.closeAllConnections();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

const format = (sample: Sample): string =>
  Object.entries(sample)
    .map(([key, value]) => `${key} ${value.toFixed(2)}`)
    .join(", ");

/** Does nothing but answer: what it takes is the same for all. */
function createPlainServer(): Server {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      if (request.method !== "POST") return response.writeHead(405).end();
      const { id, method, params } = JSON.parse(body) as {
        id?: number;
        method: string;
        params?: { protocolVersion?: string };
      };
      if (id === undefined) return response.writeHead(202).end();
      const { protocolVersion } = params ?? {};
      const result =
        method === "initialize"
          ? { protocolVersion, capabilities: {}, serverInfo: { name: "plain", version: "1" } }
          : { content: [{ type: "text", text: "ok" }] };
      response.setHeader("content-type", "application/json");
      return response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    });
  });
  server.keepAliveTimeout = 60_000;
  return server;
}

type Ask = (id: number, method: string, params?: object) => Promise<unknown>;

async function medianCall(ask: Ask): Promise<number> {
  const times: number[] = [];
  for (let id = 10; id < calls + 10; id++) {
    const startedAt = performance.now();
    await ask(id, "tools/call", { name: "small" });
    times.push(performance.now() - startedAt);
  }
  return quantile(
    times.slice(warmUp).toSorted((a, b) => a - b),
    0.5,
  );
}

async function measureDirect(url: string): Promise<Sample> {
  const call = await medianCall(async (id, method, params) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    await (await fetch(url, { method: "POST", body })).text();
  });
  return { call };
}

async function measureBridge(args: readonly string[]): Promise<Sample> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "ignore"] });
  let take: ((line: string) => void) | undefined;
  createInterface({ input: child.stdout }).on("line", (line) => take?.(line));
  const send = (message: object): unknown =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask: Ask = (id, method, params) =>
    new Promise((resolve) => {
      take = (line) => {
        if ((JSON.parse(line) as { id?: unknown }).id === id) resolve(line);
      };
      send({ id, method, params });
    });
  const client = { capabilities: {}, clientInfo: { name: "bench", version: "1" } };
  await ask(0, "initialize", { protocolVersion: "2025-11-25", ...client });
  const start = performance.now() - startedAt;
  send({ method: "notifications/initialized" });
  await ask(1, "tools/call", { name: "small" });
  await sleep(3_000);
  const memory = pssMiB(child.pid ?? 0);
  const call = await medianCall(ask);
  child.stdin.end();
  setTimeout(() => child.kill("SIGKILL"), 3_000).unref();
  await once(child, "exit");
  return { call, memory, start };
}

/** Memory of a process, with its share of what several processes have mapped. */
function pssMiB(pid: number): number {
  const [, kib] = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8")) ?? [];
  return Number(kib) / 1024;
}
