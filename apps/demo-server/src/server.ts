// The example server: an MCP server in Express whose resources are files of a folder, a bucket, a
// container or a drive, notes in memory, and what is made when it is asked for: a report and an archive. They leave it as
// plain bytes. One setting says where the files are: see ../README.md
import { mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createMcpExpressApp } from "@modelcontextprotocol/express";
import { McpServer } from "@modelcontextprotocol/server";
import { openStorage } from "@sluice/cli/internal";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { openAuditFile } from "@sluice/server/node";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import type { StorageBackend, WritableBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { createUploads } from "@sluice/uploads";
import type { Express } from "express";
import { readRedirectOrigins } from "./lib/redirect-origins.ts";
import { notes } from "./lib/notes.ts";
import { provideMade } from "./lib/provide-made.ts";
import { registerPictureTool } from "./lib/picture-tool.ts";

/** What the app serves, and where it puts the files that users send. */
export interface AppOptions extends Pick<
  SluiceOptions,
  "endpoint" | "audit" | "redirectOrigins" | "delivery" | "maxReadBytes"
> {
  readonly storage: StorageBackend;
  readonly received: WritableBackend;
}

/** An Express app with an MCP endpoint that streams its resources, and asks for files. */
export function createApp({ storage, received, ...options }: AppOptions): Express {
  const sluice = createSluice({
    mounts: [
      { baseUri: "files://demo/", storage },
      { baseUri: "notes://demo/", storage: notes, delivery: "direct" },
    ],
    ...options,
  });
  provideMade(sluice);
  const uploads = createUploads(sluice, { storage: received, scan: "none" });
  const create = (): McpServer => {
    const server = new McpServer({ name: "demo", version: "1.0.0" });
    registerPictureTool(server, uploads);
    return sluice.attach(server);
  };
  return createMcpExpressApp().use(toNodeHandler(createHandler({ sluice, create, uploads })));
}

if (realpathSync(process.argv[1]!) === fileURLToPath(import.meta.url)) {
  const { SLUICE_STORAGE = ".", SLUICE_REDIRECT_ORIGINS, PORT = "3000" } = process.env;
  const endpoint = `http://127.0.0.1:${PORT}/mcp`;
  try {
    const storage = await openStorage(SLUICE_STORAGE, process.env);
    const audit = await openAuditFile({ name: `demo-server_${PORT}` });
    const received = createFsBackend({
      root: mkdtempSync(join(tmpdir(), "sluice-received-")),
      writable: true,
    });
    const redirectOrigins = readRedirectOrigins(SLUICE_REDIRECT_ORIGINS);
    const app = createApp({ storage, received, endpoint, audit, redirectOrigins });
    app.listen(Number(PORT), "127.0.0.1", (error) => {
      if (error) throw error;
      console.log(`${SLUICE_STORAGE} is served at ${endpoint}; the audit trail is ${audit.path}`);
    });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
