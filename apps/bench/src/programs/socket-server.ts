/** Servers of WebSocket that send files in different ways: `node socket-server.js KIND [DIRECTORY] …`. */
import { closeSync, fstatSync, openSync, read } from "node:fs";
import { open } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import { McpServer, type Transport } from "@modelcontextprotocol/server";
import { WebSocketServer, type WebSocket } from "ws";
import { freePort, listen, wayOf } from "../lib/program.ts";

const [kind, root = ".", ...args] = process.argv.slice(2);
const port = await freePort();

const kinds: Readonly<Record<string, () => Server | Promise<Server>>> = {
  sluice: startSluice,
  /** Answers JSON-RPC pings with `ws` and nothing else. */
  echo() {
    const server = createServer();
    new WebSocketServer({ server }).on("connection", answerPings);
    return server;
  },
  /**
   * The same, and the files of a folder from the same process by `read` and `write`: the least that one process of Node
   * can do for both. At `/mcp` the server of the official SDK answers.
   */
  files() {
    const server = createServer((req, res) => sendFile(join(root, req.url ?? ""), res));
    new WebSocketServer({ server }).on("connection", (socket, { url }) => {
      if (url === "/mcp")
        void new McpServer({ name: "bench", version: "0.0.0" }).connect(transportOf(socket));
      else answerPings(socket);
    });
    return server;
  },
};

/**
 * MCP with downloads on the same listener: `DIRECTORY KEYS [BYTES-PORT]`. With a port, download URLs lead to another such
 * server. At `/inband` the bytes come as binary frames between the messages, as they should not.
 */
async function startSluice(): Promise<Server> {
  const { createSluice } = await import("@sluice/server");
  const { createFsBackend } = await import("@sluice/storage-fs");
  const { createHandler } = await import("@sluice/transport-http");
  const { toNodeHandler } = await import("@sluice/transport-http/node");
  const { createWebSocketHandler } = await import("@sluice/transport-ws");
  const [keys = "", bytesPort] = args;
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
  const server = createServer(toNodeHandler(createHandler({ sluice })));
  server.on("upgrade", (request, socket, head) => {
    if (request.url === "/inband")
      inBand.handleUpgrade(request, socket, head, (webSocket) => answerPings(webSocket));
    else sockets.upgrade(request, socket, head);
  });
  return server;
}

/** Answers pings, and `get` with the file as frames. */
function answerPings(socket: WebSocket): void {
  socket.on("message", (data) => {
    const { id, method, file } = JSON.parse((data as Buffer).toString()) as {
      id: number;
      method: string;
      file: string;
    };
    if (method === "get") void sendFrames(socket, join(root, file));
    else socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
  });
}

/** One frame after the other, each when the one before it is gone: as good as it gets on one connection. */
async function sendFrames(socket: WebSocket, path: string): Promise<void> {
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

/** Two buffers are on their way while a third fills. */
function sendFile(path: string, res: ServerResponse): void {
  const fd = openSync(path, "r");
  const { size } = fstatSync(fd);
  const free = Array.from({ length: 3 }, () => Buffer.allocUnsafeSlow(256 * 1024));
  let position = 0;
  let reading = false;
  function goOn(): void {
    const buffer = reading || position === size ? undefined : free.pop();
    if (!buffer) return;
    reading = true;
    read(fd, buffer, 0, 256 * 1024, position, (error, count) => {
      if (error) throw error;
      reading = false;
      position += count;
      res.write(buffer.subarray(0, count), () => {
        free.push(buffer);
        goOn();
      });
      if (position === size) res.end(() => closeSync(fd));
      else goOn();
    });
  }
  res.writeHead(200, { "content-length": size });
  goOn();
}

/** One message a frame, and nothing else. */
function transportOf(socket: WebSocket): Transport {
  const transport: Transport = {
    async start() {
      socket.on("message", (data) => {
        transport.onmessage?.(JSON.parse((data as Buffer).toString()));
      });
      socket.on("close", () => transport.onclose?.());
    },
    async send(message) {
      socket.send(JSON.stringify(message));
    },
    async close() {
      socket.close();
    },
  };
  return transport;
}

listen(await wayOf(kinds, kind)(), port);
