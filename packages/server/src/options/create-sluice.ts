import type { ContentBlock } from "@modelcontextprotocol/server";
import { attach, type AttachOptions } from "../sdk/attach.ts";
import { listen, type Listening, type ListenRequest } from "../changes/listen.ts";
import { endSession, isSessionOver } from "../access/bound-sessions.ts";
import { redeem, type RedeemRequest } from "../grants/redeem.ts";
import type { Reply } from "../delivery/reply.ts";
import { linkTo, type LinkOptions } from "../resources/resource-link.ts";
import { callInV2, type AnyMcpServer } from "../sdk/sdk-v1.ts";
import { revoke, type Revocation } from "../grants/revoke.ts";
import type { RpcFault } from "../sdk/rpc-fault.ts";
import type { Endpoint, SluiceOptions } from "./sluice-options.ts";
import { createSluiceParts, type SluiceParts } from "./sluice-parts.ts";

/** What serves beside a Sluice under the same endpoint, such as uploads, shares with it. */
export type Host = Pick<
  SluiceParts,
  | "endpoint"
  | "keys"
  | "state"
  | "usage"
  | "failures"
  | "addressOf"
  | "identify"
  | "beginAudit"
  | "onError"
  | "mapper"
  | "reach"
  | "mint"
  | "markServed"
  | "bindSession"
>;

/** Resources of a storage backend for any number of MCP servers and transports. */
export interface Sluice {
  /** The public endpoint that download URLs are made for. */
  readonly endpoint: Endpoint;
  /** Identity, keys, limits and records, for other packages that serve under the same endpoint. */
  readonly host: Host;
  /** Base of the resource URIs. */
  readonly baseUri: string;
  /**
   * Serves the resources on a server that is not connected yet: `resources/list`, `read`,
   * `templates/list`, `subscribe` and `stream`, and completions, in both protocol eras, beside what
   * its author registered. Takes a `McpServer` of SDK v2, and a `McpServer` or low-level `Server` of SDK v1 from 1.26 on, which
   * serves MCP 2025-11-25 and older; what a low-level `Server` answers itself below `resources/` it has to know before.
   * Gives the same server back. A server takes one Sluice. Throws a `TypeError` that says what cannot be had on a server.
   */
  attach<Mcp extends AnyMcpServer>(mcp: Mcp, options?: AttachOptions): Mcp;
  /**
   * The content of a tool's result that points to a resource: a `resource_link` with its metadata and the
   * beginning of its text, both of one version. Rejects with `not_found` for what the caller may not read.
   */
  link(uri: string, options: LinkOptions): Promise<ContentBlock[]>;
  /** Takes part in a `subscriptions/listen` request over HTTP. For transports. */
  listen(request: ListenRequest): Promise<Listening | { readonly fault: RpcFault }>;
  /** Answers a GET or HEAD to a download URL. Never rejects. */
  redeem(request: RedeemRequest): Promise<Reply>;
  /**
   * Withdraws download URLs that were issued up to now, sealed or stored, in every process that shares the state store. A
   * transfer that runs is not ended. Where the store is shared, clocks may differ: what is made for that principal or resource
   * within the next 5 s is withdrawn, too. Rejects with `not_found` for a token that is none of ours, `unavailable`
   * while the store is down, and `unsupported` where `grant.revocable` is false.
   */
  revoke(revocation: Revocation): Promise<void>;
  /**
   * Ends a session of the legacy era, in every process that shares the state store: download URLs and links that are
   * bound to it are dead. An end is kept only of sessions that something is bound to, so an invented id costs
   * nothing. One principal has a share of the store for its sessions (`maxRecordsPerOwner`); beyond it the end of its
   * own oldest may be forgotten, whose URLs then live until they expire, at most an hour.
   */
  endSession(sessionId: string): Promise<void>;
  /** Whether a session was ended so, since something was bound to it. For transports. */
  isSessionOver(sessionId: string): Promise<boolean>;
  /**
   * Writes the records of refusals that were counted in the last minute. Call it when the last request is answered, before the
   * sink is closed. Never rejects; the Sluice goes on working.
   */
  close(): Promise<void>;
}

/**
 * Makes a Sluice: storage on one side, MCP servers on the other. Throws a `TypeError` or
 * `RangeError` for options that cannot work.
 */
export function createSluice(options: SluiceOptions): Sluice {
  const parts = createSluiceParts(options);
  return {
    endpoint: parts.endpoint,
    host: parts,
    baseUri: parts.mapper.baseUri,
    attach(mcp, attachOptions = {}) {
      attach(parts, mcp, attachOptions);
      return mcp;
    },
    link: (uri, linkOptions) => linkTo(parts, uri, { ...linkOptions, ...callInV2(linkOptions) }),
    listen: (request) => listen(parts, request),
    redeem: (request) => redeem(parts, request),
    revoke: (revocation) => revoke(parts, revocation),
    endSession: (sessionId) => endSession(parts.state, sessionId),
    isSessionOver: (sessionId) => isSessionOver(parts.state, sessionId),
    close: () => parts.flushAudit(),
  };
}
