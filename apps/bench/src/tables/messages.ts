/** Tables of small messages: beside a file on a WebSocket, and through a bridge. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { formatKey, generateKey } from "@sluice/core";
import { WebSocket } from "ws";
import { GiB, MiB, type Bench } from "../lib/bench.ts";
import { curl } from "../lib/load.ts";
import { nginx, startPeer } from "../lib/peers.ts";
import { startNodeServer, type ServerProcess } from "../lib/processes.ts";
import { uriOf } from "../lib/sluice.ts";
import { across, quantile, summarise, type Sample } from "../lib/statistics.ts";
import {
  beside,
  each,
  takeTurns,
  type Quantity,
  type Subject,
  type TableSpec,
} from "../lib/table.ts";

const idle = "nothing else";
const bare = "a bare ws server, the download from nginx";
const floor = "a bare ws server that sends the file itself";
const sdkBare = "the official SDK on ws, the download from nginx";
const ofSdk = "the official SDK on ws, which sends the file itself";
const sidecar = "a download from the same process";
const elsewhere = "a download from a process of its own";
const inBand = "the file as binary frames on the connection";
const passingBytes = (bench: Bench): number => (bench.quick ? 256 * MiB : GiB);
const p99Of = (base: string): Quantity => beside(base, "p99");
const ofMessages =
  "The least program is the server of the official SDK, which checks every message, with nothing of Sluice. Beyond it the slowest hundredth is the scheduler's: three or more processes share the cores, and the same program differs as much from round to round.";

/** How long a message takes over WebSocket while bytes pass. */
export const websocket: TableSpec = {
  id: "websocket",
  title: "Messages over WebSocket while a file passes",
  how: (bench) =>
    `Round trips of JSON-RPC pings on one connection, one after the other, while ${passingBytes(bench) / MiB} MiB go to curl, or come between the messages. The bare servers answer pings with \`ws\` alone; those that send the file themselves read and write and do nothing else. The last columns are quotients within a round.`,
  columns: [
    { key: "p50", title: "p50 ms", digits: 2, is: each("p50") },
    { key: "p99", title: "p99 ms", digits: 2, bars: true, is: each("p99") },
    { key: "ofFloor", title: "p99 ÷ p99 of one bare process", digits: 2, is: p99Of(floor) },
    { key: "ofBare", title: "p99 ÷ bare p99", digits: 2, is: p99Of(bare) },
    { key: "ofIdle", title: "p99 ÷ idle p99", digits: 2, is: p99Of(idle) },
  ],
  promises: [
    {
      claim: "ping p99 beside a download, of a bare server beside nginx",
      of: sidecar,
      is: p99Of(bare),
      atMost: 1.2,
      floor: { of: sdkBare, profile: ofMessages },
    },
    {
      claim: "the same of a bare server that sends the file itself",
      of: sidecar,
      is: p99Of(floor),
      atMost: 1.2,
      floor: { of: ofSdk, profile: ofMessages },
    },
    {
      claim: "ping p99 with a process for the bytes, of a bare server beside nginx",
      of: elsewhere,
      is: p99Of(bare),
      atMost: 1.2,
      floor: { of: sdkBare, profile: ofMessages },
    },
  ],
  async measure(bench, running) {
    const bytes = passingBytes(bench);
    const file = await bench.file(bytes);
    const start = async (...args: readonly string[]): Promise<ServerProcess> =>
      running.use(await startNodeServer("socket-server", args, bench));
    const open = async ({ ready }: ServerProcess, path: string, isMcp = true): Promise<Pinger> =>
      running.use(await createPinger(`ws://127.0.0.1:${ready.port}${path}`, isMcp));
    const keys = formatKey(generateKey());
    const near = await start("sluice", bench.files, keys);
    const far = await start("sluice", bench.files, keys);
    const apart = await start("sluice", bench.files, keys, `${far.ready.port}`);
    const pinger = await open(near, "/mcp");
    const other = await open(apart, "/mcp");
    const mixed = await open(near, "/inband", false);
    const echo = await open(await start("echo"), "/", false);
    const single = await start("files", bench.files);
    const alone = await open(single, "/", false);
    const sdk = await open(single, "/mcp");
    const files = await startPeer(nginx, bench);
    if (files) running.use(files);

    const downloadFrom = (from: ServerProcess | undefined) => () =>
      curl(`http://127.0.0.1:${from?.ready.port}/${file}`, bytes, bench);
    const download = async (by: Pinger): Promise<void> => {
      const { downloadUrl } = await by.call("resources/stream", { uri: uriOf(file) });
      await curl(String(downloadUrl), bytes, bench);
    };
    const withoutNginx = files ? undefined : "not installed";
    return {
      subjects: await takeTurns(bench, [
        subject(idle, pinger, () => sleep(bench.quick ? 300 : 1_500)),
        subject(bare, echo, downloadFrom(files), withoutNginx),
        subject(sdkBare, sdk, downloadFrom(files), withoutNginx),
        subject(floor, alone, downloadFrom(single)),
        subject(ofSdk, sdk, downloadFrom(single)),
        subject(sidecar, pinger, () => download(pinger)),
        subject(elsewhere, other, () => download(other)),
        subject(inBand, mixed, () => takeFrames(mixed, file)),
      ]),
    };
  },
};

function subject(name: string, by: Pinger, work: () => Promise<unknown>, absent?: string): Subject {
  return {
    name,
    absent,
    async measure() {
      const times = await by.during(work);
      return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
    },
  };
}

/** Asks for a file and waits until its last frame is here. */
async function takeFrames({ socket }: Pinger, file: string): Promise<void> {
  const done = new Promise<void>((resolve) => {
    const look = (data: unknown, isBinary: boolean): void => {
      if (isBinary || !(data as Buffer).includes('"done"')) return;
      socket.off("message", look);
      resolve();
    };
    socket.on("message", look);
  });
  socket.send(JSON.stringify({ id: 0, method: "get", file }));
  await done;
}

/** Asks one WebSocket server for pings, one after the other. */
interface Pinger extends AsyncDisposable {
  readonly socket: WebSocket;
  /** Round trips in milliseconds while `work` runs, ascending. */
  during(work: () => Promise<unknown>): Promise<readonly number[]>;
  /** The result of a call. */
  call(method: string, params: object): Promise<Record<string, unknown>>;
}

/** Opens a connection; `initialize` is said first to a server of MCP. */
async function createPinger(url: string, isMcp: boolean): Promise<Pinger> {
  const socket = new WebSocket(url, isMcp ? "mcp" : [], { maxPayload: 2 ** 24 });
  await once(socket, "open");
  let lastId = 0;
  const waiting = new Map<number, (result: Record<string, unknown>) => void>();
  socket.on("message", (data, isBinary) => {
    if (isBinary) return;
    const { id, result } = JSON.parse((data as Buffer).toString()) as {
      id: number;
      result: Record<string, unknown>;
    };
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  const call: Pinger["call"] = (method, params) =>
    new Promise((resolve) => {
      lastId += 1;
      waiting.set(lastId, resolve);
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: lastId, method, params }));
    });
  if (isMcp)
    await call("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: { resourceStreaming: {} },
      clientInfo: { name: "bench", version: "0.0.0" },
    });
  return {
    socket,
    call,
    async during(work) {
      const times: number[] = [];
      const over = new AbortController();
      const working = work().finally(() => over.abort());
      while (!over.signal.aborted) {
        const startedAt = performance.now();
        await call("ping", {});
        times.push(performance.now() - startedAt);
        await sleep(1);
      }
      await working;
      return times.toSorted((a, b) => a - b);
    },
    async [Symbol.asyncDispose]() {
      socket.terminate();
      if (socket.readyState !== socket.CLOSED) await once(socket, "close");
    },
  };
}

const require = createRequire(import.meta.url);
const fileOf = (name: string, path: string): string =>
  join(dirname(require.resolve(`${name}/package.json`)), path);
const callCount = 800;
const warmUp = 300;
const direct = "no bridge";
const remote = "mcp-remote";

/** The quotient of two medians, of a bridge and of mcp-remote, both without what `less` takes. */
const ofRemote =
  (key: string, less?: string): Quantity =>
  (name, samples) => {
    const median = (of: string): number => across(samples.get(of), key)?.median ?? Number.NaN;
    const base = less === undefined ? 0 : median(less);
    return summarise([(median(name) - base) / (median(remote) - base)]);
  };

/** What a host waits for and what it holds with a bridge between it and a server. */
export const bridge: TableSpec = {
  id: "bridge",
  title: "Bridges in front of a server",
  how: `A host over stdin and stdout, a server that answers at once, a process each run: the median of ${callCount - warmUp} small calls one after the other, memory (proportional set size) 3 s after the first call, time until initialize is answered.`,
  columns: [
    { key: "call", title: "call, ms", digits: 2, bars: true, is: each("call") },
    { key: "memory", title: "idle memory, MiB", digits: 0, bars: true, is: each("memory") },
    { key: "start", title: "start, ms", digits: 0, is: each("start") },
  ],
  promises: ["sluice bridge", "sluice bridge with folders"].flatMap((of) => [
    {
      claim: `added time of a small call through ${of}, beside that of mcp-remote`,
      of,
      is: ofRemote("call", direct),
      atMost: 1.3,
    },
    {
      claim: `idle memory of ${of}, beside that of mcp-remote`,
      of,
      is: ofRemote("memory"),
      atMost: 1.1,
    },
  ]),
  async measure(bench) {
    const server = createPlainServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const folder = await bench.scratch("bridge");
    const sluice = [fileOf("@sluice/cli", "dist/main.js"), "bridge", url];
    const bridges = {
      "sluice bridge": sluice,
      "sluice bridge with folders": [...sluice, "--save-to", folder, "--send-from", folder],
      [remote]: [fileOf("mcp-remote", "dist/proxy.js"), url, "--allow-http"],
    };
    const subjects = Object.entries(bridges).map(([name, args]) => ({
      name,
      measure: () => measureBridge(args),
    }));
    try {
      const all = [{ name: direct, measure: () => measureDirect(url) }, ...subjects];
      return { subjects: await takeTurns(bench, all) };
    } finally {
      server.close();
      server.closeAllConnections();
    }
  },
};

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
  for (let id = 10; id < callCount + 10; id++) {
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
