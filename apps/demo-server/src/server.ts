// The example server: an MCP server in Express whose resources are files of a folder, a bucket, a
// container or a drive, and leave it as plain bytes. One setting says which: see ../README.md
import { fileURLToPath } from "node:url";
import { createMcpExpressApp } from "@modelcontextprotocol/express";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createAuditFile } from "@sluice/server/node";
import { withSluice } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import type { Express } from "express";
import { openStorage } from "./lib/open-storage.ts";

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
  try {
    const storage = await openStorage(SLUICE_STORAGE, process.env);
    const audit = await createAuditFile({ name: `demo-server_${PORT}` });
    createApp({ storage, endpoint, audit }).listen(Number(PORT), "127.0.0.1", (error) => {
      if (error) throw error;
      console.log(`${SLUICE_STORAGE} is served at ${endpoint}; who got what is in ${audit.path}`);
    });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
