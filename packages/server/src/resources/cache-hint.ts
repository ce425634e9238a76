import type { McpServer } from "@modelcontextprotocol/server";
import { revisionOf } from "../sdk/request-caller.ts";

/** Fields of MCP 2026-07-28 that say how long an answer may be kept, and that no other client may use it. */
export type CacheHint = (mcp: McpServer) => { ttlMs?: number; cacheScope?: "private" };

/** Makes the hint of one Sluice. Session revisions have none. */
export function createCacheHint(cacheTtlMs: number = 0): CacheHint {
  return (mcp) =>
    revisionOf(mcp) === "legacy" ? {} : { ttlMs: cacheTtlMs, cacheScope: "private" };
}
