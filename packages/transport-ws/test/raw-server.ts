import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";

/** A WebSocket server that does what the test wants, and its connections. */
export async function rawServer(
  onConnection: (socket: WebSocket, number: number) => void,
): Promise<{ url: string; sockets: WebSocket[]; server: WebSocketServer }> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  const sockets: WebSocket[] = [];
  server.on("connection", (socket) => {
    sockets.push(socket);
    onConnection(socket, sockets.length);
  });
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, sockets, server };
}

export interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
}

/** Answers the handshake of the legacy era and pings. */
export function answer(socket: WebSocket, { id, method }: Message): void {
  if (id === undefined) return;
  if (method === "initialize") {
    const serverInfo = { name: "raw", version: "1" };
    const result = { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
  } else if (method === "ping") socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
}

export const parse = (data: unknown): Message => JSON.parse(String(data)) as Message;
