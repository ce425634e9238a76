// @module-tag slow
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { Outcomes, UnreadSettings } from "../bed/programs/serve-unread.ts";
import { startProgram, type Program } from "../bed/program.ts";
import type { Memory } from "../bed/watch.ts";

const mib = 2 ** 20;
const fileBytes = 8 * mib;
const unlimited = 2 ** 40;

type Server = Program<{ port: number }>;

async function start(settings: Omit<UnreadSettings, "fileBytes"> = {}): Promise<Server> {
  const server: Server = await startProgram("serve-unread", { fileBytes, ...settings });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

// all of them are of one principal
const read = (id: number) => ({
  jsonrpc: "2.0",
  id,
  method: "resources/read",
  params: { uri: "files://site/a.bin" },
});

/** Asks for the file over HTTP and reads nothing. */
function overHttp(port: number): Socket {
  const body = JSON.stringify(read(1));
  const head = [
    "POST /mcp HTTP/1.1",
    `Host: 127.0.0.1:${port}`,
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    "MCP-Protocol-Version: 2025-11-25",
    "Authorization: Bearer one",
    `Content-Length: ${body.length}`,
  ].join("\r\n");
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  socket.pause().write(`${head}\r\n\r\n${body}`);
  return socket;
}

const masked = (message: object): Buffer => {
  const payload = Buffer.from(JSON.stringify(message));
  const length = Buffer.from([0x81, 0xfe, payload.length >> 8, payload.length & 255, 0, 0, 0, 0]);
  return Buffer.concat([length, payload]);
};

/** The same over WebSocket. */
function overWebSocket(port: number): Socket {
  const head = [
    "GET /mcp HTTP/1.1",
    `Host: 127.0.0.1:${port}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    "Sec-WebSocket-Protocol: mcp",
    "Authorization: Bearer one",
  ].join("\r\n");
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  socket.write(`${head}\r\n\r\n`);
  const initialize = {
    jsonrpc: "2.0",
    id: 0,
    method: "initialize",
    params: {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "raw", version: "1" },
    },
  };
  void once(socket, "data").then(() => {
    socket.pause();
    socket.write(masked(initialize));
    socket.write(masked({ jsonrpc: "2.0", method: "notifications/initialized" }));
    return socket.write(masked(read(1)));
  });
  return socket;
}

/** Bytes by which the server grows while nothing is read of so many answers. */
async function growthOf(
  server: Server,
  ask: (port: number) => Socket,
  answers: number,
): Promise<number> {
  const { port } = server.hello;
  const asked = async (): Promise<number> => {
    const outcomes = await server.ask<Outcomes>("outcomes");
    return Object.values(outcomes).reduce((sum, count) => sum + count, 0);
  };
  // code that is compiled belongs to the idle state
  const warm = ask(port);
  await expect.poll(asked, { timeout: 10_000 }).toBe(1);
  warm.destroy();
  const idle = await server.ask<Memory>("memory");
  const sockets = Array.from({ length: answers }, () => ask(port));
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  await expect.poll(asked, { timeout: 60_000, interval: 50 }).toBe(1 + answers);
  const busy = await server.ask<Memory>("memory");
  const outcomes = JSON.stringify(await server.ask<Outcomes>("outcomes"));
  const grown = busy.peak - idle.now;
  process.stdout.write(`${answers} unread answers: +${Math.round(grown / mib)} MiB, ${outcomes}\n`);
  return grown;
}

const transports = [
  ["HTTP", overHttp],
  ["WebSocket", overWebSocket],
] as const;

/** Bytes that they may cost. */
const most = 128 * mib;
// together more than twice of that
const answers = process.env["SLUICE_DEEP"] ? 200 : 40;

test.each(transports)(
  `${answers} unread answers of 8 MB over %s cost the server no more than 128 MiB`,
  { timeout: 90_000 },
  async (_name, ask) => {
    expect(await growthOf(await start(), ask, answers)).toBeLessThanOrEqual(most);
  },
);

const slots = { perPrincipal: 1_000, perProcess: 1_000 };

test(
  "negative control: a permit that is returned when storage was read is detected",
  { timeout: 90_000 },
  async () => {
    const server = await start({ early: true, node: { bufferedBytes: { perProcess: unlimited } } });
    expect(await growthOf(server, overHttp, 18)).toBeGreaterThan(most);
  },
);

test("negative control: frames that nothing counts are detected", { timeout: 90_000 }, async () => {
  const server = await start({
    limits: { streams: slots, responseBytes: { perPrincipal: unlimited, perProcess: unlimited } },
    ws: { bufferedBytes: { perProcess: unlimited } },
  });
  expect(await growthOf(server, overWebSocket, 8)).toBeGreaterThan(most);
});
