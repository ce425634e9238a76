import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Server as ServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import * as v1 from "@modelcontextprotocol/sdk/types.js";
import { createHttpUpstream } from "@sluice/bridge";
import { expect, test } from "vitest";
import { bridged, bridgedTo, createHost, rawHost } from "./bridged.ts";
import { callTool, hostOf, listening, makeFolders } from "./filing.ts";
import { sseTransport } from "../src/upstream/sse-transport.ts";
import { agree, connect, folderOf, startGuarded } from "./guarded.ts";
import { listen } from "./peers.ts";
import { createSseListener, startSsePeer } from "./sse-peer.ts";

const content = Buffer.alloc(300_000, "bytes of a resource / ");

for (const revision of ["legacy", "modern"] as const)
  test(`${revision} host: a server of HTTP with SSE is found, called, and asks the host`, async () => {
    const peer = await startSsePeer();
    const client = createHost(revision);
    await client.connect(bridgedTo(peer.url).transport);
    expect((await client.listTools()).tools.length).toBeGreaterThan(3);
    expect((await callTool(client, "ask")).text).toContain("Ada");
    expect(peer.requests.filter((request) => request === "GET /mcp")).toHaveLength(1);
    // Streamable HTTP was tried first, and only before
    const tried = revision === "legacy" ? 1 : 2;
    expect(peer.requests.filter((request) => request === "POST /mcp")).toHaveLength(tried);
  });

test("messages of a server of HTTP with SSE pass as they are, in their order", async () => {
  const peer = await startSsePeer();
  const host = await rawHost(bridgedTo(peer.url).transport);
  const params = {
    protocolVersion: "2024-11-05",
    capabilities: {},
    clientInfo: { name: "h", version: "1" },
  };
  await host.send({ id: 0, method: "initialize", params });
  await host.send({ method: "notifications/initialized" });
  const _meta = { progressToken: "t" };
  await host.send({ id: "one", method: "tools/call", params: { name: "progress", _meta } });
  const step = (progress: number) => ({ params: { progressToken: "t", progress } });
  await expect
    .poll(() => host.got.slice(1))
    .toMatchObject([step(1), step(2), { id: "one", result: { content: [{ text: '"done"' }] } }]);
});

test("a server that was away gets a new stream and a new session, and no more tries of Streamable HTTP", async () => {
  const peer = await startSsePeer();
  const client = createHost("legacy");
  const { transport, notes } = bridgedTo(peer.url);
  await client.connect(transport);
  await peer.stop();
  const again = await startSsePeer(peer.port);
  expect((await callTool(client, "echo", { a: 1 })).text).toContain('"a":1');
  expect(notes).toMatchObject([
    expect.stringContaining("unreachable"),
    expect.stringContaining("back"),
  ]);
  expect(again.requests[0]).toBe("GET /mcp");
  expect(again.requests).not.toContain("POST /mcp");
});

test("a call that was open when the stream broke off is answered with an error", async () => {
  const peer = await startSsePeer();
  const client = createHost("legacy");
  await client.connect(bridgedTo(peer.url).transport);
  const hanging = client.callTool({ name: "hang" });
  // it fails before it is looked at
  hanging.catch(() => {});
  await expect.poll(() => peer.requests.length).toBeGreaterThan(4);
  await peer.stop();
  await expect(hanging).rejects.toThrow(/may have run/);
});

test("headers and the token go with the stream and with messages", async () => {
  const peer = await startSsePeer();
  const client = createHost("legacy");
  const upstream = createHttpUpstream({ endpoint: peer.url, token: "mine" });
  await client.connect(bridged({ upstream }).transport);
  expect(new Set(peer.authorizations)).toEqual(new Set(["Bearer mine"]));
});

test("a token that is renewed goes with each request as it is then", async () => {
  const peer = await startSsePeer();
  let count = 0;
  const endpoint = peer.url.href;
  const upstream = createHttpUpstream({ endpoint, token: async () => `mine-${++count}` });
  await createHost("legacy").connect(bridged({ upstream }).transport);
  expect(peer.authorizations.length).toBeGreaterThan(1);
  expect(new Set(peer.authorizations)).toEqual(
    new Set(peer.authorizations.map((_, at) => `Bearer mine-${at + 1}`)),
  );
});

test("a user signs in at a server of HTTP with SSE", async () => {
  const { url, seen, valid } = await startGuarded({
    handle: createSseListener(),
    wanted: () => "read",
  });
  const client = await connect(url, { folder: folderOf(), openBrowser: agree }, "legacy");
  expect((await callTool(client, "echo")).isError).toBe(false);
  valid.clear();
  expect((await callTool(client, "echo")).isError).toBe(false);
  expect(seen).toMatchObject({ sheets: ["read"], refreshes: 1 });
});

test("a call over HTTP with SSE that needs a wider scope has the user sign in once", async () => {
  const { url, seen } = await startGuarded({ handle: createSseListener() });
  const client = await connect(url, { folder: folderOf(), openBrowser: agree }, "legacy");
  for (let call = 0; call < 2; call++) expect((await callTool(client, "echo")).isError).toBe(false);
  expect(seen.sheets).toEqual(["read", "read write"]);
});

/** A server with one resource of 300 kB. */
function createReading(): ServerV1 {
  const capabilities = { resources: {}, tools: {} };
  const server = new ServerV1({ name: "reading", version: "1" }, { capabilities });
  server.setRequestHandler(v1.ReadResourceRequestSchema, ({ params }) => ({
    contents: [{ uri: params.uri, blob: content.toString("base64") }],
  }));
  server.setRequestHandler(v1.ListToolsRequestSchema, () => ({ tools: [] }));
  server.setRequestHandler(v1.CallToolRequestSchema, () => ({
    content: [{ type: "text", text: content.toString() }],
  }));
  return server;
}

test("large results become files, and resources are saved, byte for byte", async () => {
  const { save } = makeFolders();
  const peer = await startSsePeer(0, createReading);
  const client = await hostOf(peer.url, { saveTo: save });
  const said = await callTool(client, "large");
  expect(said.length).toBeLessThan(4_000);
  const path = /\S+spooled\S+?(?=[\s,"]|$)/.exec(said.text)?.[0] ?? "";
  expect(readFileSync(path).equals(content)).toBe(true);
  const saved = await callTool(client, "save_resource", { uri: "test://a", path: "a.bin" });
  expect(readFileSync(String(saved.facts["path"])).equals(content)).toBe(true);
});

test("an address for messages of another origin gets none", async () => {
  const stolen: unknown[] = [];
  const other = await listening((request, response) => {
    stolen.push(request.url);
    response.end();
  });
  const { url } = await listen(
    createServer((request, response) => {
      const isStream = request.method === "GET";
      response.writeHead(isStream ? 200 : 405, { "content-type": "text/event-stream" });
      if (isStream) response.write(`event: endpoint\ndata: ${other.href}messages\n\n`);
      else response.end();
    }),
  );
  const host = await rawHost(bridgedTo(url).transport);
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect
    .poll(() => host.got)
    .toMatchObject([{ id: 1, error: { message: expect.stringContaining("origin") } }]);
  expect(stolen).toEqual([]);
});

test.each([404, 405, 400])(
  "a server of neither transport is refused with its %s",
  async (status) => {
    const requests: (string | undefined)[] = [];
    const { url } = await listen(
      createServer((request, response) => {
        requests.push(request.method);
        response.writeHead(status).end("there is nothing here");
      }),
    );
    const host = await rawHost(bridgedTo(url).transport);
    await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
    await expect
      .poll(() => host.got)
      .toMatchObject([{ id: 1, error: { message: expect.stringContaining(`HTTP ${status}`) } }]);
    expect(requests.filter((method) => method === "GET")).toHaveLength(1);
  },
);

test("an error of JSON-RPC is the answer of a server that speaks Streamable HTTP", async () => {
  const requests: (string | undefined)[] = [];
  const { url } = await listen(
    createServer((request, response) => {
      requests.push(request.method);
      const error = { code: -32_022, message: "Unsupported protocol version" };
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id: 1, error }));
    }),
  );
  const host = await rawHost(bridgedTo(url).transport);
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect.poll(() => host.got).toMatchObject([{ id: 1, error: { code: -32_022 } }]);
  expect(requests).not.toContain("GET");
});

test("a stream that names no address for messages is closed", async () => {
  let isClosed = false;
  const { url } = await listen(
    createServer((_request, response) => {
      response.on("close", () => (isClosed = true));
      response.writeHead(200, { "content-type": "text/event-stream" }).write(": silent\n\n");
    }),
  );
  const transport = sseTransport(url, { fetch, endpointMs: 50 });
  await expect(transport.start()).rejects.toMatchObject({ code: "protocol" });
  await expect.poll(() => isClosed).toBe(true);
});
