// The server of the page about uploads: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, createUploads } from "sluice";
import { createFsBackend, serve } from "sluice/node";

const sluice = createSluice({ storage: createFsBackend({ root: "./files" }) });
const storage = createFsBackend({ root: "./uploads", writable: true });
const uploads = createUploads(sluice, { storage, scan: "none" });
const create = () =>
  uploads.registerTool(
    sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
    "count_lines",
    { message: "Which text?", fields: { text: { type: "file", accept: ["text/*"] } } },
    async ({ files }) => `It has ${(await files.text.text()).split("\n").length - 1} lines.`,
  );
await serve(sluice, create, { uploads });
// #endregion
