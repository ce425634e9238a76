// The server of the guide about tools that take files as arguments: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, createUploads, fileInput, hostFileInput, openAiFileMeta } from "sluice";
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
const terms = { accept: ["text/*"], maxBytes: 10_000_000 };

function createDemo() {
  const mcp = new McpServer({ name: "demo", version: "1.0.0" });
  uploads.attach(mcp, terms);
  const inputSchema = z.object({
    text: fileInput(terms).optional().describe("URI of the text to measure"),
    attached: hostFileInput().optional().describe("The text to measure, as the user attached it"),
  });
  const config = { inputSchema, _meta: openAiFileMeta(["attached"]) };
  mcp.registerTool("measure", config, async ({ text = "", attached }, ctx) => {
    const file = await uploads.open(attached ?? text, terms, { mcp, ctx });
    await file.remove(); // what was opened is yours, and is kept until then
    return { content: [{ type: "text", text: `${file.name} has ${file.size} bytes.` }] };
  });
  return sluice.attach(mcp);
}

await serve(sluice, createDemo, { uploads });
// #endregion
