// The server of the guide about links: run by e2e/examples.test.ts.
// #region create
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "sluice";
import { createFsBackend, serve } from "sluice/node";
import { z } from "zod";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://acme/",
  links: { ttlMs: 10 * 60_000 }, // 10 minutes; the default is 15
});
// #endregion

// #region tool
function createAcme() {
  const mcp = new McpServer({ name: "acme", version: "1.0.0" });
  const inputSchema = z.object({ order: z.string() });
  const config = { description: "Gives the invoice of an order", inputSchema };
  mcp.registerTool("get_invoice", config, async ({ order }, ctx) => {
    const uri = `files://acme/invoices/${encodeURIComponent(order)}.pdf`;
    const { url, name } = await sluice.link(uri, { mcp, ctx, disposition: "inline" });
    return { content: [{ type: "text", text: `${name}, for ten minutes: ${url}` }] };
  });
  return sluice.attach(mcp, { tools: true });
}

await serve(sluice, createAcme);
// #endregion
