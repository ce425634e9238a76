// @module-tag slow
import { fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { initialize } from "./raw-socket.ts";
import type { Counts } from "./serving-process.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const total = deep ? 1_000 : 50;

let serving: Serving;
beforeAll(async () => void (serving = await startServing()));
afterAll(() => serving.stop());

interface Serving {
  readonly url: string;
  readonly count: () => Promise<Counts>;
  readonly stop: () => Promise<unknown>;
}

/** The server in a separate process. */
async function startServing(): Promise<Serving> {
  const program = inject("programs")["packages/transport-ws/test/serving-process.ts"]!;
  const child = fork(program, { execArgv: ["--expose-gc"] });
  const exited = once(child, "exit");
  const answer = async <Answer>(): Promise<Answer> => {
    const [message] = (await once(child, "message")) as [Answer];
    return message;
  };
  const url = await answer<string>();
  return {
    url,
    count() {
      const counted = answer<Counts>();
      child.send("count");
      return counted;
    },
    stop() {
      child.disconnect();
      return exited;
    },
  };
}

/** An initialized connection; with `call`, one that waits for a tool which never answers. */
async function open(url: string, call?: string): Promise<WebSocket> {
  const socket = new WebSocket(url, "mcp");
  await once(socket, "open");
  socket.send(JSON.stringify(initialize));
  await once(socket, "message");
  if (call !== undefined)
    socket.send(
      JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: call } }),
    );
  return socket;
}

async function openMany(url: string, call?: string): Promise<WebSocket[]> {
  const sockets: WebSocket[] = [];
  while (sockets.length < total)
    sockets.push(...(await Promise.all(Array.from({ length: 50 }, () => open(url, call)))));
  return sockets;
}

test("connections that break leave no connection, request, timer or socket", async () => {
  const { url, count } = serving;
  for (const socket of await openMany(url)) socket.terminate();
  await expect.poll(async () => (await count()).connections, { timeout: 10_000 }).toBe(0);
  const before = await count();

  const sockets = await openMany(url, "hang");
  await expect.poll(async () => (await count()).running, { timeout: 10_000 }).toBe(total);
  expect((await count()).connections).toBe(total);
  for (const socket of sockets) socket.terminate();
  await expect.poll(async () => (await count()).connections, { timeout: 10_000 }).toBe(0);
  const after = await count();
  expect([after.running, after.aborted]).toEqual([0, total]);
  expect(after.resources).toEqual(before.resources);
});

test("a connection that was initialized and says nothing takes no more than 40 KiB", async () => {
  const { url, count } = serving;
  // memory that loads and grows with the first ones is not theirs
  for (const socket of await openMany(url)) socket.terminate();
  await expect.poll(async () => (await count()).connections, { timeout: 10_000 }).toBe(0);
  await count();
  const before = await count();
  const sockets = await openMany(url);
  await count();
  const after = await count();
  expect(after.connections).toBe(total);
  const heap = (after.heapBytes - before.heapBytes) / total / 1_024;
  const resident = (after.residentBytes - before.residentBytes) / total / 1_024;
  if (deep)
    console.log(
      `${total} connections: ${heap.toFixed(1)} KiB of heap, ${resident.toFixed(1)} KiB resident each`,
    );
  expect(heap).toBeLessThan(40);
  // pages come in blocks, which weigh too much on few connections
  expect(deep ? resident : 0).toBeLessThan(40);
  for (const socket of sockets) socket.terminate();
});
