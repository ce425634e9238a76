// @module-tag slow
import { once } from "node:events";
import { request as send } from "node:http";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { Outcomes, UnreadSettings } from "../bed/programs/serve-unread.ts";
import { startProgram, type Program } from "../bed/program.ts";
import { call, send as fetchRaw } from "../bed/raw.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mib = 2 ** 20;

type Server = Program<{ port: number }>;

/** One process for all servers whose heap does not matter. */
let shared: Server;
beforeAll(async () => {
  shared = await startProgram("serve-unread", { fileBytes: 0 });
});
afterAll(() => shared[Symbol.asyncDispose]());

const crowd = deep ? 2_000 : 20;
/** Places of the process: fewer than there are readers. */
const perProcess = deep ? 256 : 16;
/** Places of one address. */
const perAddress = deep ? 32 : 8;

/** Streams the large file, and takes a kibibyte a second of whatever is answered. */
function readSlowly(port: number): Socket {
  const streaming = { resourceStreaming: {} };
  const _meta = { "io.modelcontextprotocol/clientCapabilities": streaming };
  const params = { uri: "files://site/a.bin", _meta };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/stream", params });
  const head = [
    "POST /mcp HTTP/1.1",
    `Host: 127.0.0.1:${port}`,
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream, */*",
    "MCP-Protocol-Version: 2025-11-25",
    `Content-Length: ${body.length}`,
  ].join("\r\n");
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  socket.pause().write(`${head}\r\n\r\n${body}`);
  const timer = setInterval(() => void socket.read(1_024), 1_000).unref();
  socket.once("close", () => clearInterval(timer));
  return socket;
}

/** Streams the small file from another address; gives what came and how long it took. */
function visit(port: number): Promise<{ text: string; ms: number }> {
  const began = performance.now();
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "resources/stream",
    params: {
      uri: "files://site/small.txt",
      _meta: { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } },
    },
  });
  return new Promise((resolve, reject) => {
    const outgoing = send(`http://127.0.0.1:${port}/mcp`, {
      method: "POST",
      agent: false,
      localAddress: "127.0.0.2",
      headers: {
        accept: "application/json, text/event-stream, */*",
        "content-type": "application/json",
        "mcp-protocol-version": "2025-11-25",
      },
    });
    outgoing.on("error", reject).on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => void (text += chunk));
      response.on("end", () => resolve({ text, ms: performance.now() - began }));
    });
    outgoing.end(body);
  });
}

async function visitAmong(
  settings: Partial<UnreadSettings>,
  { readers: count, held }: { readers: number; held: number },
): Promise<readonly string[]> {
  const own: UnreadSettings = { fileBytes: 8 * mib, connections: 5_000, ...settings };
  const { port } = await shared.ask<{ port: number }>(own);
  const visitTimes = async (times: number): Promise<{ text: string; ms: number }[]> => {
    const visits: { text: string; ms: number }[] = [];
    while (visits.length < times) visits.push(await visit(port));
    return visits;
  };
  // code that is compiled belongs to the idle state
  await visitTimes(20);
  const quiet = await visitTimes(20);
  const readers: Socket[] = [];
  onTestFinished(() => readers.forEach((socket) => void socket.destroy()));
  // no more at once than the system lets wait for the server to accept them
  while (readers.length < count) {
    const some = Array.from({ length: Math.min(100, count - readers.length) }, () =>
      readSlowly(port),
    );
    readers.push(...some);
    await Promise.all(some.map((socket) => once(socket, "connect")));
  }
  for (const socket of readers) socket.read(0);
  // that many have the beginning of an answer
  await expect
    .poll(() => readers.filter(({ bytesRead }) => bytesRead > 0).length, { timeout: 240_000 })
    .toBeGreaterThanOrEqual(held);
  const visits = await visitTimes(20);
  const median = (all: readonly { ms: number }[]): string => {
    const sorted = all.map(({ ms }) => ms).toSorted((a, b) => a - b);
    return sorted[all.length >> 1]!.toFixed(1);
  };
  process.stdout.write(
    `${count} slow readers: another address waits ${median(visits)} ms, ${median(quiet)} ms before\n`,
  );
  return visits.map(({ text }) => text);
}

const served = Array.from({ length: 20 }, () => "small");

test(
  `${crowd} slow readers of one address do not keep another address from being served`,
  { timeout: deep ? 600_000 : 120_000 },
  async () => {
    const all = { readers: crowd, held: crowd };
    expect(await visitAmong({ limits: { streams: { perAddress, perProcess } } }, all)).toEqual(
      served,
    );
    expect(
      await visitAmong(
        { limits: { streams: { perProcess } }, node: { requests: { perAddress: perAddress } } },
        all,
      ),
    ).toEqual(served);
  },
);

test("negative control: without a quota per address they do", { timeout: 120_000 }, async () => {
  const all = { readers: perProcess + 16, held: perProcess + 16 };
  expect(await visitAmong({ limits: { streams: { perProcess } } }, all)).not.toEqual(served);
});

const mixed = deep ? 30_000 : 300;

/** One of each kind of request, in turn. */
async function ask(port: number, n: number): Promise<void> {
  const url = `http://127.0.0.1:${port}/mcp`;
  const era = n % 2 === 0 ? "modern" : "legacy";
  const uri = "files://site/small.txt";
  const kind = n % 6;
  if (kind === 0) await call(url, "resources/list", {}, { era });
  if (kind === 1) await call(url, "resources/read", { uri }, { era });
  if (kind === 2) await call(url, "resources/stream", { uri }, { era, streaming: {} });
  if (kind === 3) {
    const streaming = { prefer: ["downloadUrl" as const] };
    const { message } = await call(url, "resources/stream", { uri }, { era, streaming });
    await fetchRaw("GET", String(message?.result?.["downloadUrl"]));
  }
  if (kind === 4) await call(url, "resources/read", { uri: `files://site/none/${n}` }, { era });
  if (kind === 5) {
    const socket = readSlowly(port);
    await once(socket.resume(), "data");
    socket.destroy();
  }
}

test(
  `${mixed} mixed requests leave no more than 2 MB in the heap`,
  { timeout: deep ? 3_600_000 : 120_000 },
  async () => {
    const own: UnreadSettings = { fileBytes: 8 * mib, limits: { streams: { perProcess: 1_000 } } };
    await using server: Server = await startProgram("serve-unread", own);
    const { port } = server.hello;
    const askMany = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n += 30)
        await Promise.all(Array.from({ length: 30 }, (_, at) => ask(port, n + at)));
    };
    const heap = async (): Promise<number> =>
      (await server.ask<{ heapUsed: number }>("heap")).heapUsed;
    // code that is compiled and caches that are full belong to the idle state
    await askMany(deep ? 3_000 : 150);
    const idle = await heap();
    await askMany(mixed);
    let grown = 0;
    await expect
      .poll(async () => (grown = (await heap()) - idle), { timeout: 20_000, interval: 500 })
      .toBeLessThanOrEqual(2_000_000);
    const outcomes = JSON.stringify(await server.ask<Outcomes>("outcomes"));
    process.stdout.write(
      `${mixed} mixed requests: heap ${Math.round(grown / 1_000)} kB, ${outcomes}\n`,
    );
  },
);
