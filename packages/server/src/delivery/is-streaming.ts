import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/wire";

/**
 * Whether resources can be streamed to the client that sent a request: the server offers it, and the request came over HTTP,
 * or over a WebSocket beside it. SEP-2532 §4 has no streaming over stdio.
 */
export function isStreaming(mcp: McpServer, ctx: ServerContext): boolean {
  const { extensions } = mcp.server.getCapabilities();
  return ctx.http !== undefined && extensions?.[EXTENSION_ID] !== undefined;
}
