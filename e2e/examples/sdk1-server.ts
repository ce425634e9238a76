// The server of docs/guides/server/own-transports.md: run by e2e/examples.test.ts.
// #region server
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import express from "express";
import { createHandler, createSluice, createUploads } from "sluice";
import { createFsBackend, toNodeHandler } from "sluice/node";

const sluice = createSluice({ storage: createFsBackend({ root: "./files" }) });
const storage = createFsBackend({ root: "./uploads", writable: true });
const uploads = createUploads(sluice, { storage, scan: "none" });

/** Hands files out by `get_download_link`, and takes a table in. */
function createDemo() {
  const mcp = sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }), { tools: true });
  return uploads.registerTool(
    mcp,
    "count_rows",
    { message: "Which table?", fields: { table: { type: "file", accept: ["text/csv"] } } },
    async ({ files }) => `It has ${(await files.table.text()).trimEnd().split("\n").length} rows.`,
  );
}

const app = express();
app.use(toNodeHandler(createHandler({ sluice, uploads, behind: "app" }))); // the one call, before parsers and your routes
app.use(express.json());

const transports = new Map();
app.all("/mcp", async (req, res) => {
  const id = req.get("mcp-session-id");
  let transport = id === undefined ? undefined : transports.get(id);
  if (id !== undefined && !transport) {
    res.status(404).end(); // an ended session: the client opens another
    return;
  }
  if (!transport) {
    const opened = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (name) => void transports.set(name, opened),
      onsessionclosed: (name) => void transports.delete(name),
    });
    await createDemo().connect(opened);
    transport = opened;
  }
  await transport.handleRequest(req, res, req.body);
});
app.listen(Number(new URL(sluice.endpoint.url).port), "127.0.0.1");
// #endregion
