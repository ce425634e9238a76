import type { Socket } from "node:net";
import { Client } from "@modelcontextprotocol/client";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { createWebSocketTransport as createPortableTransport } from "../src/client.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import type { WebSocket } from "ws";
import { answer, parse, rawServer } from "./raw-server.ts";

const count = 60;
const hasWebSocket = "WebSocket" in globalThis;
if (!hasWebSocket) console.log("turns: this Node has no built-in WebSocket");

/** The connection of a socket of ws, which does not tell it. */
function connectionOf(socket: WebSocket): Socket {
  return (socket as unknown as Record<"_socket", Socket>)["_socket"];
}

/** A server whose progress and result leave in one packet. */
async function serve(): Promise<string> {
  const { url } = await rawServer((socket) => {
    socket.on("message", (data) => {
      const message = parse(data);
      if (message.method !== "tools/call") return answer(socket, message);
      const { progressToken } = message.params!["_meta"] as { progressToken: number };
      const line = connectionOf(socket);
      line.cork();
      for (let progress = 1; progress <= count; progress += 1) {
        const params = { progressToken, progress, total: count };
        socket.send(JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params }));
      }
      const result = { content: [{ type: "text", text: "done" }] };
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }));
      line.uncork();
    });
  });
  return url;
}

describe("a call gets all the progress that came before its result", () => {
  const transports = [
    ["ws", createWebSocketTransport],
    ["the platform's WebSocket", createPortableTransport],
  ] as const;
  test.each(transports.slice(0, hasWebSocket ? 2 : 1))("with %s", async (_, createTransport) => {
    const client = new Client({ name: "test", version: "1" });
    onTestFinished(() => client.close());
    await client.connect(createTransport(await serve()));
    const seen: number[] = [];
    const onprogress = ({ progress }: { progress: number }): void => void seen.push(progress);
    await client.callTool({ name: "work", arguments: {} }, { onprogress });
    expect(seen).toEqual(Array.from({ length: count }, (_unused, at) => at + 1));
  });
});
