// The example server: an MCP server in Express whose resources are the files of a folder, and leave
// it as plain bytes. One setting says which folder:   SLUICE_STORAGE=./files tsx src/server.ts
import { fileURLToPath } from "node:url";
import { createMcpExpressApp } from "@modelcontextprotocol/express";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import type { Express } from "express";

/** An Express app with an MCP endpoint that streams its resources. */
export function createApp(options: Omit<SluiceOptions, "baseUri" | "keys">): Express {
  const sluice = createSluice({
    baseUri: "files://demo/",
    keys: "ephemeral", // one process; several need the same keys
    onWarning() {},
    ...options,
  });
  const mcp = createMcpHandler(() =>
    sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
  );
  return createMcpExpressApp().use(toNodeHandler(withSluice(mcp, sluice)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { SLUICE_STORAGE = ".", PORT = "3000" } = process.env;
  const endpoint = `http://127.0.0.1:${PORT}/mcp`;
  const app = createApp({ storage: createFsBackend({ root: SLUICE_STORAGE }), endpoint });
  app.listen(Number(PORT), "127.0.0.1", (error) => {
    if (error) throw error;
    console.log(`${SLUICE_STORAGE} is served at ${endpoint}`);
  });
}
