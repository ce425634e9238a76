/**
 * What Sluice replaces: an MCP server that gives files as base64 in `resources/read`, with nothing
 * but the official SDK: `node base64-server.js DIRECTORY`.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer, ResourceTemplate } from "@modelcontextprotocol/server";

const [directory = "."] = process.argv.slice(2);

const mcp = createMcpHandler(() => {
  const server = new McpServer({ name: "base64", version: "0.0.0" });
  server.registerResource(
    "file",
    new ResourceTemplate("files://bench/{name}", { list: undefined }),
    {},
    async (uri) => {
      const bytes = await readFile(join(directory, basename(uri.pathname)));
      return { contents: [{ uri: uri.href, blob: bytes.toString("base64") }] };
    },
  );
  return server;
});

const handler = toNodeHandler(mcp);
const server = createServer((request, response) => void handler(request as never, response));
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ port, endpoint: `http://127.0.0.1:${port}/mcp` }));
});
