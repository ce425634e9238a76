/**
 * MCP over WebSocket with downloads on the same listener: `node websocket-server.js DIRECTORY [BYTES-PORT]`. With a
 * port, download URLs lead to another such server. At `/inband` the bytes come as binary frames
 * between the messages, as they should not. Prints its ports as a line of JSON when it listens.
 */
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createSidecar } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { WebSocketServer, type WebSocket } from "ws";
import { freePort } from "./lib/server-process.ts";

const [root = ".", keys = "", bytesPort] = process.argv.slice(2);
const port = await freePort();

const sluice = createSluice({
  storage: createFsBackend({ root }),
  baseUri: "files://bench/",
  endpoint: `http://127.0.0.1:${bytesPort ?? port}/mcp`,
  keys,
  grant: { use: "window", ttlMs: 15 * 60_000 },
});
const sockets = createWebSocketHandler(
  () => sluice.attach(new McpServer({ name: "bench", version: "0.0.0" })),
  { url: `ws://127.0.0.1:${port}/mcp`, messageRate: { perSecond: 1e6, burst: 1e6 } },
);

const inBand = new WebSocketServer({ noServer: true });
inBand.on("connection", (socket) => {
  socket.on("message", (data) => {
    const { id, method, file } = JSON.parse((data as Buffer).toString()) as {
      id: number;
      method: string;
      file: string;
    };
    if (method === "get") void sendFile(socket, join(root, file));
    else socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
  });
});

/** One frame after the other, each when the one before it is gone: as good as it gets on one connection. */
async function sendFile(socket: WebSocket, path: string): Promise<void> {
  const file = await open(path);
  const block = Buffer.allocUnsafe(2 ** 20);
  for (;;) {
    const { bytesRead } = await file.read(block);
    if (bytesRead === 0 || socket.readyState !== socket.OPEN) break;
    await new Promise((resolve) => socket.send(block.subarray(0, bytesRead), resolve));
  }
  await file.close();
  socket.send(JSON.stringify({ done: true }));
}

const server = createServer(toNodeHandler(createSidecar(sluice)));
server.on("upgrade", (request, socket, head) => {
  if (request.url === "/inband")
    inBand.handleUpgrade(request, socket, head, (webSocket) =>
      inBand.emit("connection", webSocket),
    );
  else sockets.upgrade(request, socket, head);
});
server.listen(port, "127.0.0.1", () => console.log(JSON.stringify({ port })));
