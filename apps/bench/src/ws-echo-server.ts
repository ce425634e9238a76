/** Answers JSON-RPC pings over WebSocket with `ws` and nothing else. Prints its port as a line of JSON when it listens. */
import type { AddressInfo } from "node:net";
import { WebSocketServer } from "ws";

const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
server.on("connection", (socket) => {
  socket.on("message", (data) => {
    const { id } = JSON.parse((data as Buffer).toString()) as { id: number };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
  });
});
server.on("listening", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
