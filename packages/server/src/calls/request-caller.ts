import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import type { RevisionKind } from "@sluice/core/internal";
import type { Caller } from "../access/principal.ts";
import { findExchange, notesOf, type ReplySlot } from "./exchange.ts";

/** First protocol revision without sessions. Revisions are dates, so text order is their order. */
const firstStateless = "2026";

/** The kind of protocol revision that this server negotiated. */
export function revisionOf(mcp: McpServer): RevisionKind {
  const version = mcp.server.getNegotiatedProtocolVersion();
  return version !== undefined && version >= firstStateless ? "modern" : "legacy";
}

/** The caller of the request that a handler is in. */
export function callerOf(ctx: ServerContext, mcp: McpServer): Caller {
  const request = ctx.http?.req;
  return {
    authInfo: ctx.http?.authInfo,
    address: notesOf(request).address,
    // stateless revisions have no sessions, even where a client sends the header
    sessionId: revisionOf(mcp) === "modern" ? undefined : ctx.sessionId,
    header: (name) => request?.headers.get(name) ?? undefined,
  };
}

/** The reply slot of the request that a handler is in, if its transport opened one. */
export function slotOf(ctx: ServerContext): ReplySlot | undefined {
  return findExchange(ctx.http?.req)?.slot;
}

/**
 * Fields of MCP 2026-07-28 that say how long a response may be kept, and that no other client may use it. Session revisions
 * have none.
 */
export function cacheHint(
  mcp: McpServer,
  ttlMs: number = 0,
): { ttlMs?: number; cacheScope?: "private" } {
  return revisionOf(mcp) === "legacy" ? {} : { ttlMs, cacheScope: "private" };
}
