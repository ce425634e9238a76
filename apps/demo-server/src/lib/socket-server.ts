import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, type AuditInput } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";

/** MCP over WebSocket, with the bytes beside it on the same listener. Gives the address for clients. */
export async function startSocketServer(folder: string, audit: AuditInput): Promise<string> {
  const http = createServer().listen(0, "127.0.0.1");
  await once(http, "listening");
  const host = `127.0.0.1:${(http.address() as AddressInfo).port}`;
  const sluice = createSluice({
    storage: createFsBackend({ root: folder }),
    baseUri: "files://demo/",
    endpoint: `http://${host}/mcp`,
    audit,
  });
  const url = `ws://${host}/mcp`;
  const sockets = createWebSocketHandler(
    () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
    { url },
  );
  http.on("request", toNodeHandler(createHandler({ sluice })));
  http.on("upgrade", (request, socket, head) => {
    if (!sockets.upgrade(request, socket, head)) socket.destroy();
  });
  return url;
}
