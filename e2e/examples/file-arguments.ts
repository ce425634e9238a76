// The server of the guide about tools that take files as arguments: run by e2e/examples.test.ts.
// #region server
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/server";
import {
  attachUploadTools,
  composeHandler,
  createFileTransfer,
  createSessions,
  createSluice,
  createUploads,
  fileInput,
  openAiFileMeta,
} from "sluice";
import { createFsBackend, toNodeHandler } from "sluice/node";
import { z } from "zod";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://demo/",
  endpoint: process.env.PUBLIC_URL ?? "http://127.0.0.1:3000/mcp",
  keys: process.env.SLUICE_KEYS ?? "ephemeral",
});
const uploads = createUploads(sluice, {
  storage: createFsBackend({ root: "./uploads", writable: true }),
  unscanned: "allow",
});
const files = createFileTransfer(sluice, uploads);
const terms = { accept: ["text/*"], maxBytes: 10_000_000 };

function createDemo() {
  const mcp = new McpServer({ name: "demo", version: "1.0.0" });
  attachUploadTools(mcp, uploads, terms);
  const inputSchema = z.object({ text: fileInput(terms).describe("The text to measure") });
  const config = { inputSchema, _meta: openAiFileMeta(["text"]) };
  mcp.registerTool("measure", config, async ({ text }, ctx) => {
    const file = await files.open(text, terms, { mcp, ctx });
    await file.remove(); // what was opened is yours, and is kept until then
    return { content: [{ type: "text", text: `${file.name} has ${file.size} bytes.` }] };
  });
  return sluice.attach(mcp);
}

const mcp = createSessions(createDemo, sluice);
const server = createServer(toNodeHandler(composeHandler({ mcp, sluice, uploads })));
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
// #endregion
