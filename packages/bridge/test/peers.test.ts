import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import type { SpoolLimits } from "@sluice/bridge";
import { rewriteSpooled, spooledFetch } from "@sluice/bridge/internal";
import {
  Client,
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
} from "@modelcontextprotocol/client";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { expect, inject, test } from "vitest";
import { blob, createLargeServer, text } from "./large-server.ts";
import { answer, openBench, type Bench } from "./spooling.ts";
import { spooledLines } from "../src/spool/json-spooler.ts";

const long = "x".repeat(200_000);

function limitsOf({ folder, spooled }: Bench): SpoolLimits {
  return { target: folder, spooled, inlineBytes: 65_536, maxBytes: 2 ** 20 };
}

/** Serves for one test. */
async function listen(listener: RequestListener): Promise<AsyncDisposable & { url: string }> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async [Symbol.asyncDispose]() {
      server.close().closeAllConnections();
    },
  };
}

for (const responseMode of ["json", "sse"] as const)
  for (const mode of ["legacy", "auto"] as const)
    test(`a client of the SDK gets words, the disk the bytes (${responseMode}, ${mode})`, async () => {
      await using bench = await openBench();
      const handle = toNodeHandler(createMcpHandler(createLargeServer, { responseMode }));
      await using server = await listen(
        (request, response) => void handle(request as never, response),
      );
      const spooling = spooledFetch(fetch, limitsOf(bench));
      const transport = new StreamableHTTPClientTransport(new URL(server.url), { fetch: spooling });
      const client = new Client(
        { name: "host", version: "1.0.0" },
        { versionNegotiation: { mode } },
      );
      await client.connect(transport);
      const { onmessage } = transport;
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
      transport.onmessage = (message: JSONRPCMessage) =>
        onmessage?.(rewriteSpooled(message, bench.spooled));

      const read = await client.readResource({ uri: "large://a/blob.bin" });
      expect(JSON.stringify(read).length).toBeLessThan(2_048);
      const report = await client.callTool({ name: "report" });
      expect(report.content).toMatchObject([{ type: "text" }, { type: "text", text: "small" }]);
      const files = await bench.folder.list();
      expect(files.map(({ bytes }) => bytes)).toEqual([blob.length, Buffer.byteLength(text)]);
      expect(readFileSync(files[0]!.path).equals(blob)).toBe(true);
      expect(readFileSync(files[1]!.path, "utf8")).toBe(text);
      expect(JSON.stringify(read)).toContain(files[0]!.path);
      expect(JSON.stringify(report)).toContain(files[1]!.path);
      expect(bench.spooled.size).toBe(0);
      await client.close();
    });

test("a server of the SDK over stdio: lines become small, the disk gets the bytes", async () => {
  await using bench = await openBench();
  const program = inject("programs")["packages/bridge/test/serving-process.ts"]!;
  const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const say = (message: object): void =>
    void child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const params = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "h", version: "1" },
  };
  say({ id: 1, method: "initialize", params });
  const answers: string[] = [];
  for await (const line of spooledLines(child.stdout, limitsOf(bench))) {
    const message = rewriteSpooled(
      JSON.parse(Buffer.from(line).toString()) as JSONRPCMessage,
      bench.spooled,
    );
    answers.push(JSON.stringify(message));
    if (answers.length === 1) {
      say({ method: "notifications/initialized" });
      say({ id: 2, method: "resources/read", params: { uri: "large://a/blob.bin" } });
    } else if (answers.length === 2)
      say({ id: 3, method: "tools/call", params: { name: "report" } });
    else child.stdin.end();
  }
  const files = await bench.folder.list();
  expect(readFileSync(files[0]!.path).equals(blob)).toBe(true);
  expect(readFileSync(files[1]!.path, "utf8")).toBe(text);
  expect(answers[1]).toContain(files[0]!.path);
  expect(answers[2]!.length).toBeLessThan(2_200);
});

/** What the wrapped `fetch` makes of one answer. */
async function fetched(
  bench: Bench,
  listener: RequestListener,
  limits: Partial<SpoolLimits> = {},
): Promise<Response & AsyncDisposable> {
  const server = await listen(listener);
  const response = await spooledFetch(fetch, { ...limitsOf(bench), ...limits })(server.url);
  return Object.assign(response, { [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() });
}

test(
  "status, headers and URL of an answer stay; the length goes; content codings are read",
  { tags: "slow" },
  async () => {
    await using bench = await openBench();
    const body = gzipSync(answer({ text: long }));
    await using response = await fetched(bench, (_request, reply) => {
      const headers = {
        "content-type": "Application/JSON; charset=utf-8",
        "content-encoding": "gzip",
      };
      reply.writeHead(400, { ...headers, "content-length": body.length, "mcp-session-id": "s" });
      reply.end(body);
    });
    expect(response.status).toBe(400);
    expect(response.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    expect(response.headers.get("mcp-session-id")).toBe("s");
    expect(response.headers.get("content-length")).toBeNull();
    expect((await response.text()).length).toBeLessThan(200);
    expect(bench.names()).toHaveLength(1);
  },
);

test("an answer without a body is the answer itself", async () => {
  await using bench = await openBench();
  const empty = new Response(null, { status: 202 });
  expect(await spooledFetch(async () => empty, limitsOf(bench))("http://a/")).toBe(empty);
});

test("other bodies pass up to a limit", async () => {
  await using bench = await openBench();
  const page: RequestListener = (_request, reply) => {
    reply.writeHead(502, { "content-type": "text/html" }).end(long);
  };
  await using small = await fetched(bench, page);
  expect(await small.text()).toBe(long);
  await using large = await fetched(bench, page, { maxMessageBytes: 100_000 });
  await expect(large.text()).rejects.toMatchObject({ code: "too_large" });
});

test("a connection that breaks in a string leaves no file, and fails the body", async () => {
  await using bench = await openBench();
  await using response = await fetched(bench, (_request, reply) => {
    reply.writeHead(200, { "content-type": "application/json" });
    reply.write(answer({ text: long }).slice(0, -10), () => setTimeout(() => reply.destroy(), 20));
  });
  await expect(response.text()).rejects.toThrow("terminated");
  expect(bench.names()).toEqual([]);
});

test("a reader that cancels in a string leaves no file, and closes the connection", async () => {
  await using bench = await openBench();
  let isClosed = false;
  await using response = await fetched(bench, (_request, reply) => {
    reply
      .on("close", () => (isClosed = true))
      .writeHead(200, { "content-type": "text/event-stream" });
    reply.write(`: hello\n\ndata: ${answer({ text: long }).slice(0, -10)}`);
  });
  const reader = response.body!.getReader();
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(": hello\n\n");
  const waiting = reader.read();
  await expect.poll(() => bench.names()).toHaveLength(1);
  await reader.cancel();
  expect((await waiting).done).toBe(true);
  await expect.poll(() => isClosed).toBe(true);
  await expect.poll(() => bench.names()).toEqual([]);
});

test("an event passes when it ends, not when the next begins", async () => {
  await using bench = await openBench();
  for (const end of ["\n\n", "\r\n\r\n", "\r\r"]) {
    await using response = await fetched(bench, (_request, reply) => {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      reply.write(`data: {}${end}`);
    });
    const reader = response.body!.getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(`data: {}${end}`);
    await reader.cancel();
  }
});

test("lines end with the reason of an abort while the source is silent", async () => {
  await using bench = await openBench();
  const controller = new AbortController();
  const silent = new ReadableStream<Uint8Array>();
  const lines = spooledLines(silent, { ...limitsOf(bench), signal: controller.signal });
  const next = lines.next();
  const reason = new Error("closed");
  controller.abort(reason);
  await expect(next).rejects.toBe(reason);
});
