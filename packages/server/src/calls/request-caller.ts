import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  type ClientCapabilities,
  type Implementation,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
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

/** What a client declares: on this request if there is no session, else when it opened the session. */
export function clientCapabilities(
  mcp: McpServer,
  ctx: ServerContext,
): ClientCapabilities | undefined {
  if (revisionOf(mcp) === "legacy") return mcp.server.getClientCapabilities();
  return envelopeOf(ctx)[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
}

/** The name that a client gives itself, at the same times. Not for servers of SDK v1. */
export function clientName(mcp: McpServer, ctx: ServerContext): string | undefined {
  if (revisionOf(mcp) === "legacy") return mcp.server.getClientVersion()?.name;
  return (envelopeOf(ctx)[CLIENT_INFO_META_KEY] as Implementation | undefined)?.name;
}

function envelopeOf(ctx: ServerContext): Readonly<Record<string, unknown>> {
  return { ...ctx.mcpReq.envelope };
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
