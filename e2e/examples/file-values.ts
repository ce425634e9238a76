// The server of the page about SEP-2631: run by e2e/examples.test.ts.
// #region server
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { composeHandler, createFileTransfer, createSluice, createUploads, fileInput } from "sluice";
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
const terms = { accept: ["text/*"], maxBytes: 1_000_000 };

const mcp = createMcpHandler(() => {
  const server = new McpServer({ name: "demo", version: "1.0.0" });
  const inputSchema = z.object({ draft: fileInput(terms).describe("The draft to compare") });
  server.registerTool("compare", { inputSchema }, async ({ draft }, ctx) => {
    const text = await files.open(draft, terms, { mcp: server, ctx });
    await text.remove(); // what was opened is yours, and is kept until then
    const report = await files.value("files://demo/report.txt", { mcp: server, ctx });
    return {
      content: [{ type: "text", text: text.sha256 }],
      structuredContent: { report },
    };
  });
  return files.attach(sluice.attach(server));
});
const server = createServer(toNodeHandler(composeHandler({ mcp, sluice, uploads })));
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
// #endregion
