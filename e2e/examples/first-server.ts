// The server of the README: run by e2e/examples.test.ts.
// #region server
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice, withSluice } from "sluice";
import { createFsBackend, toNodeHandler } from "sluice/node";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://demo/",
  endpoint: process.env.PUBLIC_URL ?? "http://127.0.0.1:3000/mcp",
  keys: process.env.SLUICE_KEYS ?? "ephemeral",
  links: {}, // the tool get_download_link may make links
});
const mcp = createMcpHandler(() =>
  sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }), { tools: true }),
);
const server = createServer(toNodeHandler(withSluice(mcp, sluice)));
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
// #endregion
