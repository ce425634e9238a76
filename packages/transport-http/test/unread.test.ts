import { createServer, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { createByteAccount } from "@sluice/server/internal";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";
import { boundEvents } from "../src/events/bound-events.ts";
import { sendResponse } from "../src/node/send-response.ts";
import { post } from "./call.ts";
import { listen, serve } from "./serve.ts";

const mib = 2 ** 20;
const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": new Uint8Array(8 * mib), "b.txt": "b" });

/** Asks without reading the answer. */
function ask(url: string, method: string, params: object, headers: readonly string[] = []): Socket {
  const { port, pathname } = new URL(url);
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const fields = [
    `POST ${pathname} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    "MCP-Protocol-Version: 2025-11-25",
    `Content-Length: ${body.length}`,
    ...headers,
  ];
  const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
  onTestFinished(() => void socket.destroy());
  socket.pause().write(`${fields.join("\r\n")}\r\n\r\n${body}`);
  return socket;
}

test(
  "a permit is held until the last byte of the answer is sent, and released when its reader leaves",
  { tags: "slow" },
  async () => {
    const { url, records } = await serve({
      sluice: { storage, maxReadBytes: 8 * mib, limits: { streams: { perProcess: 2 } } },
    });
    const readers = [1, 2].map(() => ask(url, "resources/read", { uri }));
    await expect.poll(() => records.filter(({ action }) => action === "read")).toHaveLength(2);
    const small = () => post(url, "modern", "files://demo/b.txt", { method: "resources/read" });
    expect(await (await small()).text()).toContain('"reason":"busy"');
    for (const reader of readers) reader.destroy();
    await expect.poll(async () => (await small()).text()).toContain('"text":"b"');
  },
);

test("the bytes of answers are taken before storage is read", { tags: "slow" }, async () => {
  let opened = 0;
  const counting = {
    ...storage,
    open: (...args: Parameters<typeof storage.open>) => {
      const found = storage.open(...args);
      return found.then(({ body, ...rest }) => ({
        ...rest,
        body: body.pipeThrough(
          new TransformStream<Uint8Array, Uint8Array>({
            transform(chunk, controller) {
              opened += chunk.byteLength;
              controller.enqueue(chunk);
            },
          }),
        ),
      }));
    },
  };
  const { url, records } = await serve({
    sluice: {
      storage: counting,
      maxReadBytes: 8 * mib,
      limits: { streams: { perPrincipal: 100 }, responseBytes: { perPrincipal: 40 * mib } },
    },
  });
  const authorization = ["Authorization: Bearer one"];
  ask(url, "resources/read", { uri }, authorization);
  await expect.poll(() => records.length).toBe(1);
  expect(opened).toBe(8 * mib);
  for (let n = 0; n < 5; n++) ask(url, "resources/read", { uri }, authorization);
  await expect.poll(() => records.length).toBe(6);
  expect(records.slice(1).map(({ outcome, reason }) => `${outcome} ${reason}`)).toEqual(
    Array(5).fill("denied throttled"),
  );
  expect(opened).toBe(8 * mib);
});

test(
  "answers of any tool are counted until they are sent: without room the next is refused",
  { tags: "slow" },
  async () => {
    const text = "x".repeat(8 * mib);
    const { url } = await serve({
      sluice: { storage },
      node: { bufferedBytes: { perProcess: 12 * mib } },
      register: (mcp) =>
        void mcp.registerTool("big", {}, () => ({ content: [{ type: "text", text }] })),
    });
    const reader = ask(url, "tools/call", { name: "big" });
    const call = (): Promise<Response> =>
      fetch(url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "tools/call",
          "mcp-name": "big",
        },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 1,
          method: "tools/call",
          params: {
            name: "big",
            _meta: {
              "io.modelcontextprotocol/protocolVersion": "2026-07-28",
              "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
              "io.modelcontextprotocol/clientCapabilities": {},
            },
          },
        }),
      });
    const statusOf = async (): Promise<string> => {
      const response = await call();
      await response.arrayBuffer();
      return `${response.status} ${response.headers.get("retry-after")}`;
    };
    await expect.poll(statusOf).toBe("503 1");
    reader.destroy();
    await expect.poll(statusOf).toBe("200 null");
  },
);

/** A server whose answer is a stream of events that is written without waiting. */
async function serveEvents(options: object) {
  const account = createByteAccount(64 * mib);
  let answer: ServerResponse | undefined;
  let push: ReadableStreamDefaultController<Uint8Array> | undefined;
  const server = createServer((_req, res) => {
    answer = res;
    const unsent = account.open();
    res.once("close", () => unsent.release());
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => void (push = controller),
    });
    const events = boundEvents(body, { maxBytes: mib, unsent });
    const headers = { "content-type": "text/event-stream" };
    void sendResponse(res, new Response(events, { headers }), { ...options, unsent });
  });
  const url = await listen(server);
  const socket = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
  onTestFinished(() => void socket.destroy());
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await expect.poll(() => push).toBeDefined();
  return {
    account,
    socket,
    isOpen: () => answer?.destroyed === false,
    push: (bytes: number) => push!.enqueue(new Uint8Array(bytes)),
  };
}

test("events that are not taken break their stream off when they are too many, and none of them stays", async () => {
  const { account, socket, isOpen, push } = await serveEvents({});
  socket.pause();
  await expect
    .poll(() => {
      for (let n = 0; n < 64 && isOpen(); n++) push(64 * 1_024);
      return isOpen();
    })
    .toBe(false);
  await expect.poll(() => account.bytes).toBe(0);
});

test("an event stream may be silent for longer than a reader may stall", async () => {
  const slow = { idleMs: 50, minBytesPerSecond: 1e9 };
  const { account, socket, isOpen, push } = await serveEvents(slow);
  let received = 0;
  socket.on("data", (chunk: Uint8Array) => void (received += chunk.byteLength));
  for (let n = 1; n <= 3; n++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    push(1_000);
    await expect.poll(() => received).toBeGreaterThan(n * 1_000);
  }
  expect(isOpen()).toBe(true);
  expect(account.bytes).toBe(0);
});

test(
  "a reader that is slower than the least rate is given up on JSON and events of MCP as well",
  { tags: "slow" },
  async () => {
    const slow = { minBytesPerSecond: 1e9, idleMs: 200 };
    const { socket, isOpen, push } = await serveEvents(slow);
    socket.pause();
    for (let n = 0; n < 128; n++) push(64 * 1_024);
    await expect.poll(isOpen, { timeout: 5_000 }).toBe(false);

    const unsent = createByteAccount(64 * mib).open();
    let answer: ServerResponse | undefined;
    const server = createServer((_req, res) => {
      answer = res;
      void sendResponse(res, Response.json("x".repeat(24 * mib)), { ...slow, unsent });
    });
    const { port } = new URL(await listen(server));
    const reader = connect(Number(port), "127.0.0.1").on("error", () => {});
    onTestFinished(() => void reader.destroy());
    reader.pause().write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await expect.poll(() => answer?.destroyed, { timeout: 5_000 }).toBe(true);
  },
);

test("requests of one address beyond its share are 429, those of another are served", async () => {
  const { url } = await serve({
    sluice: { storage, maxReadBytes: 8 * mib, clientAddress: 1 },
    node: { requests: { perAddress: 2 } },
  });
  const from = (address: string) => [`X-Forwarded-For: ${address}`];
  const readers = [1, 2].map(() => ask(url, "resources/read", { uri }, from("192.0.2.1")));
  const statusOf = async (address: string): Promise<string> => {
    const headers = { "x-forwarded-for": `198.51.100.9, ${address}` };
    const small = "files://demo/b.txt";
    const response = await post(url, "modern", small, { method: "resources/read", headers });
    await response.text();
    return `${response.status} ${response.headers.get("retry-after")}`;
  };
  await expect.poll(() => statusOf("192.0.2.1")).toBe("429 1");
  expect(await statusOf("192.0.2.2")).toBe("200 null");
  for (const reader of readers) reader.destroy();
  await expect.poll(() => statusOf("192.0.2.1")).toBe("200 null");
});
