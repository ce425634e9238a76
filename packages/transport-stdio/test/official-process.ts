// A server of the official SDK over its own stdio transport; the version is the argument.
import { McpServer as McpServerV2 } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const info = { name: "official", version: "1.0.0" };
const uri = "test://small";
const read = () => ({ contents: [{ uri, mimeType: "x/y", blob: btoa("small") }] });

if (process.argv[2] === "v1") {
  const mcp = new McpServerV1(info);
  mcp.registerResource("small", uri, {}, read);
  await mcp.connect(new StdioServerTransport());
} else
  serveStdio(() => {
    const mcp = new McpServerV2(info);
    mcp.registerResource("small", uri, {}, read);
    return mcp;
  });
