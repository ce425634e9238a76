/**
 * A server in a process of its own that takes and gives bytes beside messages, over HTTP and WebSocket. Started with its
 * settings as JSON, it tells its parent the URL.
 */
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { binaryReads, openBinary } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { withBinary, withSluice } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { z } from "zod";
import { watchMemory } from "../watch.ts";

/** What the parent may set. */
export interface ServeBinarySettings {
  /** Files of zeros by their size in bytes. */
  readonly sparse?: Record<string, number>;
}

const { sparse = {} } = JSON.parse(process.argv[2] ?? "{}") as ServeBinarySettings;
const root = await mkdtemp(join(tmpdir(), "sluice-binary-"));
for (const [name, size] of Object.entries(sparse)) {
  await writeFile(join(root, name), "");
  await truncate(join(root, name), size);
}

const http = createServer();
await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
const { port } = http.address() as AddressInfo;
const endpoint = `http://127.0.0.1:${port}/mcp`;
const sluice = createSluice({
  storage: createFsBackend({ root }),
  baseUri: "files://site/",
  keys: "ephemeral",
  endpoint,
  onWarning: () => {},
});
const factory = (): McpServer => {
  const mcp = new McpServer({ name: "binary", version: "1.0.0" });
  mcp.registerTool(
    "count",
    { inputSchema: z.object({ file: z.looseObject({}) }) },
    async ({ file }) => {
      let bytes = 0;
      for await (const chunk of openBinary(file)!.body as unknown as AsyncIterable<Uint8Array>)
        bytes += chunk.length;
      return { content: [{ type: "text", text: String(bytes) }] };
    },
  );
  return sluice.attach(mcp, { binary: binaryReads });
};
const options = { maxBinarySize: 2 ** 34 };
http.on(
  "request",
  toNodeHandler(withBinary(withSluice(createMcpHandler(factory), sluice), options)),
);
const sockets = createWebSocketHandler(factory, {
  url: `ws://127.0.0.1:${port}/mcp`,
  binary: options,
  messageRate: { perSecond: 10_000, burst: 10_000 },
});
http.on("upgrade", (request, socket, head) => {
  if (!sockets.upgrade(request, socket, head)) socket.destroy();
});

const memory = watchMemory();
process.on("message", () => process.send!(memory()));
process.on("disconnect", () => {
  void rm(root, { recursive: true, force: true }).finally(() => process.exit(0));
});
process.send!(endpoint);
