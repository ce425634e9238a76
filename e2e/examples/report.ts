// The server of docs/recipes/report.md: run by e2e/recipes.test.ts.
// #region server
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "sluice";
import { createFsBackend, serve } from "sluice/node";
import { z } from "zod";

const storage = createFsBackend({ root: "./reports", writable: true });
const sluice = createSluice({ storage });

function createReports() {
  const mcp = new McpServer({ name: "reports", version: "1.0.0" });
  const inputSchema = z.object({ month: z.string().regex(/^\d{4}-\d{2}$/) });
  const config = { description: "Writes the sales of a month, as 2026-11", inputSchema };
  mcp.registerTool("sales_report", config, async ({ month }, ctx) => {
    const key = `sales-${month}-${randomUUID().slice(0, 8)}.csv`; // a link is of one version
    const file = await storage.write(key);
    await file.write(new TextEncoder().encode(`day,total\n${month}-01,7\n`));
    await file.commit();
    const { url, name } = await sluice.link(`files://local/${key}`, { mcp, ctx });
    return { content: [{ type: "text", text: `${name}: ${url}` }] };
  });
  return sluice.attach(mcp);
}

await serve(sluice, createReports);
// #endregion
