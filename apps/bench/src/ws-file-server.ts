/**
 * Answers JSON-RPC pings over WebSocket with `ws`, and sends the files of a folder from the same process by `read` and `write`
 * alone: the least that one process of Node can do for both. At `/mcp` the server of the official SDK answers.
 * `node ws-file-server.js DIRECTORY` prints its port as a line of JSON when it listens.
 */
import { closeSync, fstatSync, openSync, read } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { McpServer, type Transport } from "@modelcontextprotocol/server";
import { WebSocketServer, type WebSocket } from "ws";

const [root = "."] = process.argv.slice(2);
const chunkBytes = 256 * 1024;

const server = createServer((req, res) => sendFile(join(root, req.url ?? ""), res));

/** Two buffers are on their way while a third fills. */
function sendFile(path: string, res: ServerResponse): void {
  const fd = openSync(path, "r");
  const { size } = fstatSync(fd);
  const free = Array.from({ length: 3 }, () => Buffer.allocUnsafeSlow(chunkBytes));
  let position = 0;
  let reading = false;
  function goOn(): void {
    const buffer = reading || position === size ? undefined : free.pop();
    if (!buffer) return;
    reading = true;
    read(fd, buffer, 0, chunkBytes, position, (error, count) => {
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

const sockets = new WebSocketServer({ server });
sockets.on("connection", (socket, { url }) => {
  if (url === "/mcp") {
    void new McpServer({ name: "bench", version: "0.0.0" }).connect(transportOf(socket));
    return;
  }
  socket.on("message", (data) => {
    const { id } = JSON.parse((data as Buffer).toString()) as { id: number };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
  });
});

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

server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
