import { McpServer } from "@modelcontextprotocol/server";

/** What the server below has; 300 KB, so that it comes in several chunks. */
export const blob = Buffer.alloc(300_000, "0123456789 bytes of a blob / ");
export const text = 'A line of "text" with é and 😀\n'.repeat(8_000);

/** A server of the official SDK with a large resource and a tool with a large result. */
export function createLargeServer(): McpServer {
  const mcp = new McpServer({ name: "large", version: "1.0.0" });
  mcp.registerResource("blob", "large://a/blob.bin", { mimeType: "x/y" }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: "x/y", blob: blob.toString("base64") }],
  }));
  mcp.registerTool("report", {}, () => ({
    content: [
      { type: "text", text },
      { type: "text", text: "small" },
    ],
  }));
  return mcp;
}
