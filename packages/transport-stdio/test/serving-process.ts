// A server over stdio with the files of a folder as resources, and a few tools.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { binaryContent, binaryReads } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createStdioTransport } from "@sluice/transport-stdio";

const [root = "."] = process.argv.slice(2);

const sluice = createSluice({
  storage: createFsBackend({ root }),
  baseUri: "files://demo/",
  keys: "ephemeral",
  endpoint: "http://127.0.0.1/mcp",
  anonymous: true,
  onWarning: () => {},
});

serveStdio(
  () => {
    const mcp = new McpServer({ name: "stdio", version: "1.0.0" });
    sluice.attach(mcp, { stream: false, binary: binaryReads });
    for (const type of ["image", "audio", "blob"] as const)
      mcp.registerTool(type, {}, async (ctx) => {
        const bytes = new Uint8Array(300_000).fill(7);
        return { content: [await binaryContent(ctx, { type, mimeType: "x/y", bytes })] };
      });
    mcp.registerTool("rss", {}, () => ({
      content: [{ type: "text", text: String(process.memoryUsage().rss) }],
    }));
    return mcp;
  },
  { transport: createStdioTransport() },
);
