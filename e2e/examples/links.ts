// The server of the guide about links: run by e2e/examples.test.ts.
// #region create
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createMemoryStateStore, createSluice, withSluice } from "sluice";
import { createFsBackend, toNodeHandler } from "sluice/node";
import { z } from "zod";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://acme/",
  endpoint: process.env.PUBLIC_URL ?? "http://127.0.0.1:3000/mcp",
  keys: process.env.SLUICE_KEYS ?? "ephemeral",
  state: createMemoryStateStore(), // what processes share; with it a link has 32 characters behind /d/
  links: { ttlMs: 10 * 60_000 }, // 10 minutes; the default and the most are 15
});
// #endregion

// #region tool
function createAcme() {
  const mcp = new McpServer({ name: "acme", version: "1.0.0" });
  const inputSchema = z.object({ order: z.string() });
  const config = { description: "Gives the invoice of an order", inputSchema };
  mcp.registerTool("get_invoice", config, async ({ order }, ctx) => {
    const uri = `files://acme/invoices/${encodeURIComponent(order)}.pdf`;
    const { url, name } = await sluice.url(uri, { mcp, ctx, disposition: "inline" });
    return { content: [{ type: "text", text: `${name}, for ten minutes: ${url}` }] };
  });
  return sluice.attach(mcp, { tools: true });
}

const mcp = createMcpHandler(createAcme);
const server = createServer(toNodeHandler(withSluice(mcp, sluice)));
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
// #endregion
