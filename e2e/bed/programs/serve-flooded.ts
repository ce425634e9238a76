/** A server without sessions, over the SDK's transport, whose parent floods it. Tells its URL, and a download URL. */
import { createServer } from "node:http";
import { McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { listen } from "../listen.ts";

const http = createServer();
const { port } = await listen(http);
const url = `http://127.0.0.1:${port}/mcp`;
const sluice = createSluice({
  storage: createMemoryBackend({ "a.bin": "0123456789" }),
  baseUri: "files://demo/",
  endpoint: url,
  keys: "ephemeral",
  grant: { tokens: "stored", use: "window", ttlMs: 900_000 },
  onWarning: () => {},
});
const mcp: McpFetchHandler = {
  async fetch(request, told) {
    const transport = new WebStandardStreamableHTTPServerTransport();
    await sluice.attach(new McpServer({ name: "flooded", version: "1.0.0" })).connect(transport);
    return transport.handleRequest(request, told);
  },
};
http.on("request", toNodeHandler(withSluice(mcp, sluice)));
process.on("disconnect", () => process.exit());
const grant = await sluice.host.mint({ mayMint: true, maxTtlMs: 900_000 }, "a.bin", undefined);
process.send?.({ url, downloadUrl: grant!.url });
