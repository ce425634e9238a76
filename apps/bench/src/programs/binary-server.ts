/**
 * Files as bytes beside messages, over HTTP and WebSocket on one port, to clients that take them; to others as base64:
 * `node binary-server.js DIRECTORY`.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/server";
import { binaryReads } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";

const [directory = "."] = process.argv.slice(2);

const http = createServer();
http.listen(0, "127.0.0.1", () => {
  const { port } = http.address() as AddressInfo;
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  const sluice = createSluice({
    storage: createFsBackend({ root: directory }),
    baseUri: "files://bench/",
    keys: "ephemeral",
    endpoint,
    maxReadBytes: 2 ** 30,
    onWarning: () => {},
  });
  const create = (): McpServer =>
    sluice.attach(new McpServer({ name: "sluice", version: "0.0.0" }), { binary: binaryReads });
  const handler = createHandler({ sluice, create, sessions: false, binary: true });
  http.on("request", toNodeHandler(handler));
  const sockets = createWebSocketHandler(create, {
    url: `ws://127.0.0.1:${port}/mcp`,
    maxBufferedBytes: 2 ** 30,
    binary: {},
  });
  http.on("upgrade", (request, socket, head) => {
    if (!sockets.upgrade(request, socket, head)) socket.destroy();
  });
  console.log(JSON.stringify({ port, endpoint }));
});
