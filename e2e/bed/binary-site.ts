import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { binaryContent, binaryReads, openBinary } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import type { StorageBackend } from "@sluice/storage";
import { createSessions, withBinary, withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { z } from "zod";
import { listen } from "./listen.ts";

/** What a test wants to be different. */
export interface BinarySiteOptions {
  /** Legacy clients over HTTP get a session. */
  readonly sessions?: boolean;
  /** False: a server that never heard of binary transfer. */
  readonly binary?: boolean;
}

/** A server that takes and gives bytes beside messages, over HTTP and WebSocket. */
export interface BinarySite extends AsyncDisposable {
  /** Over HTTP; with `ws:` instead over WebSocket. */
  readonly url: string;
}

/** Starts one on a loopback port. Its tools: `count` says how many bytes came, `echo` gives them back as an image. */
export async function startBinarySite(
  storage: StorageBackend,
  { sessions = false, binary = true }: BinarySiteOptions = {},
): Promise<BinarySite> {
  const http = createServer();
  const listening = await listen(http);
  const { port } = listening;
  const url = `http://127.0.0.1:${port}/mcp`;
  const sluice = createSluice({
    storage,
    baseUri: "files://site/",
    keys: "ephemeral",
    endpoint: url,
    onWarning: () => {},
  });
  const factory = (): McpServer => {
    const mcp = new McpServer({ name: "binary", version: "1.0.0" });
    const inputSchema = z.object({ file: z.looseObject({}) });
    mcp.registerTool("count", { inputSchema }, async ({ file }) => {
      let bytes = 0;
      for await (const chunk of openBinary(file)!.body as unknown as AsyncIterable<Uint8Array>)
        bytes += chunk.length;
      return { content: [{ type: "text", text: String(bytes) }] };
    });
    mcp.registerTool("echo", { inputSchema }, async ({ file }, ctx) => {
      const { body, size } = openBinary(file)!;
      const bytes = { source: { body }, size };
      return {
        content: [await binaryContent(ctx, { type: "image", mimeType: "image/png", bytes })],
      };
    });
    return sluice.attach(mcp, { binary: binaryReads });
  };
  const limits = { maxBinaryBytes: 2 ** 34 };
  const mcp = sessions ? createSessions(factory, sluice) : createMcpHandler(factory);
  // clients that know nothing of bytes send them as base64
  const plain = withSluice(mcp, sluice, { maxRequestBodySize: 2 ** 22 });
  http.on("request", toNodeHandler(binary ? withBinary(plain, limits) : plain));
  const sockets = createWebSocketHandler(factory, {
    url: `ws://127.0.0.1:${port}/mcp`,
    ...(binary && { binary: limits }),
    maxMessageBytes: 2 ** 22,
    messageRate: { perSecond: 10_000, burst: 10_000 },
  });
  http.on("upgrade", (request, socket, head) => {
    if (!sockets.upgrade(request, socket, head)) socket.destroy();
  });
  return {
    url,
    async [Symbol.asyncDispose]() {
      await sockets.close({ deadlineMs: 0 });
      await mcp.close();
      await listening.close();
    },
  };
}
