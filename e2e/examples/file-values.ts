// The server of the page about SEP-2631: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createFileTransfer } from "@sluice/uploads/experimental";
import { createSluice, createUploads, fileInput } from "sluice";
import { createFsBackend, serve } from "sluice/node";
import { z } from "zod";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://demo/",
});
const uploads = createUploads(sluice, {
  storage: createFsBackend({ root: "./uploads", writable: true }),
  scan: "none",
});
const files = createFileTransfer(uploads);
const terms = { accept: ["text/*"], maxBytes: 1_000_000 };

function createDemo() {
  const mcp = new McpServer({ name: "demo", version: "1.0.0" });
  const inputSchema = z.object({ draft: fileInput(terms).describe("The draft to compare") });
  mcp.registerTool("compare", { inputSchema }, async ({ draft }, ctx) => {
    const text = await uploads.open(draft, terms, { mcp, ctx });
    await text.remove(); // what was opened is yours, and is kept until then
    const report = await files.value("files://demo/report.txt", { mcp, ctx });
    return {
      content: [{ type: "text", text: text.sha256 }],
      structuredContent: { report },
    };
  });
  return files.attach(sluice.attach(mcp));
}
await serve(sluice, createDemo, { uploads });
// #endregion
