import { createServer, type ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { createHttpUpstream, createStdioHost, runBridge } from "@sluice/bridge";
import { expect, onTestFinished, test } from "vitest";
import { bridged, rawHost } from "./bridged.ts";
import { listen } from "./peers.ts";
import { scripted } from "./scripted.ts";

const initialize = {
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {} },
};

test("garbage between messages of a process is dropped and said", async () => {
  const bridge = bridged({
    upstream: scripted(`(m) => {
      process.stdout.write("hello\\n\\n{\\"jsonrpc\\":\\"1.0\\"}\\n[]\\n\\xff\\xfe\\n");
      if (m.method === "initialize") start(m);
    }`),
  });
  const host = await rawHost(bridge.transport);
  await host.send(initialize);
  await expect
    .poll(() => host.got)
    .toMatchObject([{ id: 0, result: { serverInfo: { name: "scripted" } } }]);
  expect(bridge.notes.length).toBeGreaterThan(0);
});

test.each([
  ["first", `'{"jsonrpc":"2.0","id":1,"result":{"big":"' + big + '"}}\\n'`],
  ["last", `'{"result":{"big":"' + big + '"},"jsonrpc":"2.0","id":1}\\n'`],
])(
  "an answer of a process that is too large is an error of its call: id %s",
  async (_where, line) => {
    const bridge = bridged({
      upstream: scripted(
        `(m) => {
        const big = "x".repeat(3 * 2 ** 20);
        if (m.method === "initialize") start(m);
        else if (m.id === 1) process.stdout.write(${line});
        else if (m.id === 2) answer(2, { fine: true });
      }`,
        { maxMessageBytes: 2 ** 20 },
      ),
    });
    const host = await rawHost(bridge.transport);
    await host.send(initialize);
    await expect.poll(() => host.got.length).toBe(1);
    await host.send({ id: 1, method: "tools/call", params: {} });
    await expect.poll(() => host.got.length).toBe(2);
    expect(host.got[1]).toMatchObject({
      id: 1,
      error: { message: expect.stringContaining("larger than 1 MiB") },
    });
    await host.send({ id: 2, method: "tools/list" });
    await expect.poll(() => host.got[2]).toMatchObject({ id: 2, result: { fine: true } });
  },
);

/** A server that starts sessions and then answers calls in its own way. */
async function oddServer(onCall: (response: ServerResponse, id: unknown) => void): Promise<URL> {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const message = (body ? JSON.parse(body) : {}) as { method?: string; id?: unknown };
      response.on("error", () => {});
      if (message.method === "initialize") {
        response.setHeader("content-type", "application/json");
        const result = {
          protocolVersion: "2025-11-25",
          capabilities: {},
          serverInfo: { name: "odd", version: "1" },
        };
        response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }));
      } else if (message.id === undefined)
        response.writeHead(request.method === "GET" ? 405 : 202).end();
      else onCall(response, message.id);
    });
  });
  return (await listen(server)).url;
}

function flood(response: ServerResponse, chunk: string): void {
  const write = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", write);
  };
  write();
}

test.each([
  [
    "a body of JSON without end",
    "application/json",
    `{"jsonrpc":"2.0","id":1,"result":{"big":"`,
    "x".repeat(65_536),
  ],
  ["an event without end", "text/event-stream", "data: ", "x".repeat(65_536)],
])("%s is an error of its call", async (_what, type, first, chunk) => {
  const url = await oddServer((response) => {
    response.setHeader("content-type", type);
    response.write(first);
    flood(response, chunk);
  });
  const bridge = bridged({
    upstream: createHttpUpstream({ endpoint: url, maxMessageBytes: 2 ** 20 }),
  });
  const host = await rawHost(bridge.transport);
  await host.send(initialize);
  await expect.poll(() => host.got.length).toBe(1);
  await host.send({ id: 1, method: "tools/call", params: {} });
  await expect.poll(() => host.got[1]).toMatchObject({ id: 1, error: { code: -32_000 } });
});

test.each([
  [
    "no JSON",
    (response: ServerResponse) =>
      response.writeHead(200, { "content-type": "application/json" }).end("<html>"),
  ],
  [
    "another type",
    (response: ServerResponse) =>
      response.writeHead(200, { "content-type": "text/html" }).end("hello"),
  ],
  ["a status of failure", (response: ServerResponse) => response.writeHead(500).end("broken")],
  [
    "a stream without an answer",
    (response: ServerResponse) =>
      response.writeHead(200, { "content-type": "text/event-stream" }).end(": nothing\n\n"),
  ],
  [
    "a redirect elsewhere",
    (response: ServerResponse) =>
      response.writeHead(307, { location: "http://169.254.169.254/" }).end(),
  ],
])("%s is an error of the call", async (_what, onCall) => {
  const bridge = bridged({ upstream: createHttpUpstream({ endpoint: await oddServer(onCall) }) });
  const host = await rawHost(bridge.transport);
  await host.send(initialize);
  await expect.poll(() => host.got.length).toBe(1);
  await host.send({ id: 1, method: "tools/call", params: {} });
  await expect.poll(() => host.got[1]).toMatchObject({ id: 1, error: { code: -32_000 } });
});

test("a call that the server refuses says so, and that it did not run", async () => {
  const url = await oddServer((response) => response.writeHead(401).end());
  const bridge = bridged({ upstream: createHttpUpstream({ endpoint: url }) });
  const host = await rawHost(bridge.transport);
  await host.send(initialize);
  await expect.poll(() => host.got.length).toBe(1);
  await host.send({ id: 1, method: "tools/call", params: {} });
  await expect
    .poll(() => host.got[1])
    .toMatchObject({
      id: 1,
      error: {
        message: expect.stringMatching(/refused the call: HTTP 401. It did not run/),
        data: { retryable: false },
      },
    });
});

test("a host that does not read holds the server back", async () => {
  let written = 0;
  const url = await oddServer((response) => {
    response.setHeader("content-type", "text/event-stream");
    const params = { level: "info", data: "x".repeat(10_000) };
    const event = `data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params })}\n\n`;
    const write = (): void => {
      do written += event.length;
      while (!response.destroyed && response.write(event));
      if (!response.destroyed) response.once("drain", write);
    };
    write();
  });
  const input = new PassThrough();
  const output = new PassThrough();
  const abort = new AbortController();
  const ended = runBridge({
    host: createStdioHost({ input, output }),
    upstream: createHttpUpstream({ endpoint: url }),
    signal: abort.signal,
  });
  ended.catch(() => {});
  onTestFinished(async () => {
    abort.abort();
    await ended.catch(() => {});
  });
  input.write(`${JSON.stringify({ jsonrpc: "2.0", ...initialize })}\n`);
  await expect.poll(() => output.readableLength).toBeGreaterThan(0);
  input.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: {} })}\n`);
  // the server can write no more than what buffers on the way hold
  let before = -1;
  await expect
    .poll(
      () => {
        const isStill = written > 0 && written === before;
        before = written;
        return isStill;
      },
      { interval: 300 },
    )
    .toBe(true);
  expect(output.readableLength).toBeLessThan(4 * 2 ** 20);
  expect(written).toBeLessThan(32 * 2 ** 20);
});
