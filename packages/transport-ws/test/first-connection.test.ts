import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { Client } from "@modelcontextprotocol/client";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocketServer } from "ws";
import { connect } from "./connect.ts";
import { answer, parse, rawServer, type Message } from "./raw-server.ts";

test("a server that speaks first, in the packet that opens the connection, is read", async () => {
  const http = createServer();
  const peers = new WebSocketServer({ noServer: true });
  http.on("upgrade", (request, socket, head) => {
    socket.cork();
    peers.handleUpgrade(request, socket, head, (peer) => {
      peer.send(JSON.stringify({ jsonrpc: "2.0", method: "notifications/x" }));
      socket.uncork();
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const peer of peers.clients) peer.terminate();
    await new Promise((resolve) => http.close(resolve));
  });
  const { port } = http.address() as AddressInfo;
  const transport = createWebSocketTransport(`ws://127.0.0.1:${port}/mcp`);
  const heard = new Promise((onmessage) => void Object.assign(transport, { onmessage }));
  await transport.start();
  expect(await heard).toMatchObject({ method: "notifications/x" });
  await transport.close();
});

describe("a first connection", () => {
  test.each([
    [401, "unauthenticated"],
    [403, "permission_denied"],
    [404, "not_found"],
    [429, "throttled"],
    [503, "unavailable"],
    [302, "protocol"],
    [200, "protocol"],
  ])("is rejected after %i as %s, at once", async (status, code) => {
    let asked = 0;
    const http = createServer();
    http.on("upgrade", (_request, socket) => {
      asked += 1;
      socket.end(
        `HTTP/1.1 ${status} Anything\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n`,
      );
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void http.close());
    const { port } = http.address() as AddressInfo;
    await expect(connect("SDK v2, legacy", `ws://127.0.0.1:${port}/mcp`)).rejects.toMatchObject({
      code,
    });
    expect(asked).toBe(1);
  });

  test("is rejected in time at a closed port, and at a server that does not answer", async () => {
    await expect(connect("SDK v2, legacy", "ws://127.0.0.1:1/mcp")).rejects.toMatchObject({
      code: "unavailable",
    });
    const http = createServer();
    const held: Duplex[] = [];
    http.on("upgrade", (_request, socket) => held.push(socket));
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      for (const socket of held) socket.destroy();
      http.close();
    });
    const { port } = http.address() as AddressInfo;
    await expect(
      connect("SDK v2, legacy", `ws://127.0.0.1:${port}/mcp`, { connectMs: 50 }),
    ).rejects.toMatchObject({ code: "timeout" });
    const stuck = { connectMs: 50, token: () => new Promise<string>(() => {}) };
    await expect(
      connect("SDK v2, legacy", `ws://127.0.0.1:${port}/mcp`, stuck),
    ).rejects.toMatchObject({ code: "timeout" });
  });

  test("fails without the subprotocol", async () => {
    const { url } = await rawServer(() => {});
    const server = new WebSocketServer({
      port: 0,
      host: "127.0.0.1",
      handleProtocols: () => false,
    });
    await new Promise((resolve) => server.once("listening", resolve));
    onTestFinished(() => server.close());
    const other = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    await expect(connect("SDK v2, legacy", other)).rejects.toMatchObject({ code: "protocol" });
    expect(url).not.toBe(other);
  });

  test("falls back to the legacy handshake if the server is silent when asked for its era", async () => {
    const heard: Message[] = [];
    const { url } = await rawServer((socket) =>
      socket.on("message", (data) => {
        heard.push(parse(data));
        answer(socket, parse(data));
      }),
    );
    const client = new Client(
      { name: "t", version: "1" },
      { versionNegotiation: { mode: "auto", probe: { timeoutMs: 100 } } },
    );
    await client.connect(createWebSocketTransport(url));
    onTestFinished(() => client.close());
    expect(heard.map(({ method }) => method).slice(0, 2)).toEqual([
      "server/discover",
      "initialize",
    ]);
    await client.ping();
  });

  test("leaves nothing when cancelled", async () => {
    const { url, sockets: open } = await rawServer((socket) =>
      socket.on("message", (data) => answer(socket, parse(data))),
    );
    const { client } = await connect("SDK v2, legacy", url);
    const stopped = new AbortController();
    const call = client
      .callTool({ name: "x" }, { signal: stopped.signal })
      .catch(() => "cancelled");
    stopped.abort();
    expect(await call).toBe("cancelled");
    await client.close();
    await expect.poll(() => open[0]!.readyState).toBe(3);
  });
});
