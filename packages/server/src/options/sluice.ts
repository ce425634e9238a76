import type { CallToolResult, McpServer } from "@modelcontextprotocol/server";
import type { KeyRing } from "@sluice/core";
import type { Stores } from "@sluice/state";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Caller, Identity } from "../access/principal.ts";
import type { AttachOptions } from "../attach/attach.ts";
import type { BeginAudit } from "../audit/audit.ts";
import type { PrincipalOfCall } from "../calls/call-principal.ts";
import type { AnyMcpServer } from "../calls/sdk-v1.ts";
import type { Listen } from "../changes/listen.ts";
import type { FailedRedemptions } from "../limits/failed-redemptions.ts";
import type { UsageMeter } from "../limits/rate-limits.ts";
import type { CreateResourceLink } from "../resources/resource-link.ts";
import type { BrowseRequest, FolderView } from "../resources/browse-folder.ts";
import type { WalkedObject, WalkRequest } from "../resources/walk-folder.ts";
import type { AuthorizationRequest, AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { ProviderOptions } from "../storage/provider-mount.ts";
import type { NamedCall } from "../tools/named-call.ts";
import type { MintedGrant } from "../urls/grants.ts";
import type { CreateLink } from "../urls/create-link.ts";
import type { LinkTerms, TokenForm } from "../urls/grant-options.ts";
import type { Redeem } from "../urls/redeem.ts";
import type { Revocation } from "../urls/revoke.ts";
import type { Endpoint } from "./check-options.ts";

/** Resources of a storage backend for any number of MCP servers and transports. */
export interface Sluice {
  /** The public endpoint that download URLs are made for. */
  readonly endpoint: Endpoint;
  /**
   * For transports and other packages that serve under the same endpoint. Outside of the promise of versions: it changes in
   * any release.
   */
  readonly host: Host;
  /** Bases of the resource URIs, one for each mount, in the order of the lists. */
  readonly baseUris: readonly string[];
  /**
   * Serves the resources on a server that is not connected yet: `resources/list`, `read`,
   * `templates/list`, `subscribe` and `stream`, and completions, in both kinds of protocol revision, beside what
   * its author registered. Takes a `McpServer` of SDK v2, and a `McpServer` or low-level `Server` of SDK v1 from 1.26 on, which
   * serves MCP 2025-11-25 and older; what a low-level `Server` answers itself below `resources/` it has to know before.
   * Gives the same server back. A server takes one Sluice. Throws a `TypeError` that says what cannot be had on a server.
   */
  attach<Mcp extends AnyMcpServer>(mcp: Mcp, options?: AttachOptions): Mcp;
  /**
   * Serves a resource that is made when it is asked for, or all resources of a template (`{name}`, `{+path}`), beside the
   * storages. A provider comes before storage below whose base it lies. Of two templates that match a URI the
   * first given answers; one URI comes before templates. Throws a `TypeError` or `RangeError` that says what to give.
   */
  provide(uriOrTemplate: string, provider: ProviderOptions | ProviderOptions["open"]): void;
  /**
   * The content of a tool's result that points to a resource: a `resource_link` with its metadata and the
   * beginning of its text, both of one version. Rejects with `not_found` for what the caller may not read.
   */
  readonly resourceLink: CreateResourceLink;
  /**
   * A link to a resource: a short URL that works in every browser and program without credentials, until it is over.
   * It acts for the caller that it is made for, whose rules, limits and records count at each request. It ends with
   * its time (15 minutes, or what `links.maxTtlMs` allows), the caller's access token and session, its key, and `revoke`. Rejects with
   * `not_found` for what the caller may not know, `permission_denied`, `unauthenticated`, `throttled`, and
   * `unsupported` where `links` is not set.
   */
  readonly link: CreateLink;
  /**
   * The principal of a tool's caller, with the values that `access` and functions of `storage` get for this call;
   * `undefined` for the anonymous. Rejects with `unauthenticated` for a caller that is unknown if the anonymous are
   * refused, and with a `TypeError` for a server that another Sluice is attached to. Counts and records nothing.
   */
  readonly principal: PrincipalOfCall;
  /**
   * Withdraws download URLs and links that were issued up to now, sealed or stored, in every process that shares the
   * state store. A transfer that runs is not ended. If the store is shared, clocks may differ: URLs made for that
   * principal or resource within the next 5 s are also withdrawn. Rejects with `not_found` for an unknown token,
   * `unavailable` while the store is down, and `unsupported` where `grant.revocable` is false.
   */
  revoke(revocation: Revocation): Promise<void>;
  /**
   * Ends a session of a session revision, in every process that shares the state store: download URLs and links that
   * are bound to it end. An end is kept only of sessions that something is bound to, so an invented id costs nothing.
   * One principal has a share of the store for its sessions (`records.perPrincipal`); beyond it the end of its own
   * oldest may be forgotten, whose URLs then live until they expire, at most an hour, and
   * links as long as `links.maxTtlMs` allows.
   */
  endSession(sessionId: string): Promise<void>;
  /**
   * Writes the records of refusals that were counted in the last minute, and closes what the Sluice was given: its storages, a
   * key file and an audit file. Not the stores. Call it when the last request is answered. Idempotent.
   */
  close(): Promise<void>;
}

/** What a principal wants to do with the resource of a name. */
interface NamedAuthorization extends Omit<AuthorizationRequest, "key"> {
  readonly name: string;
}

/** What a principal may use of storage for one resource, and the key to use it with. */
interface AuthorizedResource {
  readonly key: string;
  /** URI of the resource, for records. */
  readonly uri: string;
  readonly storage: AuthorizedStorage;
}

/**
 * What transports, and packages that serve under the same endpoint, such as uploads, share with a Sluice. Take the members
 * that you use.
 */
export interface Host {
  readonly endpoint: Endpoint;
  readonly keys: KeyRing;
  readonly stores: Stores;
  /**
   * Name of the resource of a URI, by which it is authorized and download URLs are minted. Throws `not_found` outside of the
   * mounts, and `invalid_argument` for a malformed URI.
   */
  readonly nameOf: (uri: string) => string;
  /** Counts requests and bytes of principals. */
  readonly usage: UsageMeter;
  /** Counts requests with tokens that open nothing. */
  readonly failures: FailedRedemptions;
  /** Neither `principal` nor `anonymous` was given: at a loopback endpoint every caller without a token is anonymous. */
  readonly isOpenByDefault: boolean;
  /** Rejects with `unauthenticated` for a caller that is unknown where the anonymous are refused. */
  readonly identify: (caller: Caller) => Identity | Promise<Identity>;
  /** Proxies whose entries of `X-Forwarded-For` a transport in Node skips to know the `address` of a caller. */
  readonly proxyHops: number;
  /** Address of the client of a request, where it is known: that of the caller, unless `clientAddress` is a function. Never throws. */
  readonly addressOf: (caller: Caller) => string | undefined;
  /** Storage as a principal may use it for the resource of a name. Rejects with what a client may learn. */
  readonly authorize: (request: NamedAuthorization) => Promise<AuthorizedResource>;
  /** A download URL for the resource of a name; `undefined` when this identity gets none. Rejects with what the state store says. */
  readonly mint: (
    identity: Identity,
    name: string,
    etag: string | undefined,
  ) => Promise<MintedGrant | undefined>;
  /**
   * A link to the resource of a name, which acts for this identity; `undefined` when it gets none. The caller has asked the access
   * rules. Rejects with what the state store says.
   */
  readonly mintLink: (identity: Identity, terms: LinkTerms) => Promise<MintedGrant | undefined>;
  /** Where tokens of links and slots keep what they permit, see `links.tokens`. */
  readonly tokens: TokenForm;
  /** True for the token of a download URL that works for every holder. Never for a stored one. */
  readonly isSelfAuthenticating: (token: string) => boolean;
  /**
   * Goes over the objects of one storage below a folder, page after page, without those that the principal may not list. Throws
   * `not_found` for a folder of no storage.
   */
  readonly walk: (request: WalkRequest) => AsyncGenerator<WalkedObject>;
  /** One page of a folder for people; see `browseFolder`. */
  readonly browse: (request: BrowseRequest) => Promise<FolderView>;
  /** Whether `link` makes links. */
  readonly hasLinks: boolean;
  /**
   * Runs a tool for the file that a model names: as it is given, else as it is found without doubt. Rejects with the names that
   * may be meant.
   */
  readonly callNamed: (
    call: NamedCall,
    run: (uri: string) => Promise<CallToolResult>,
  ) => Promise<CallToolResult>;
  /** Takes part in a `subscriptions/listen` request over HTTP. */
  readonly listen: Listen;
  /** Answers a GET or HEAD to a download URL or a link. Never rejects. */
  readonly redeem: Redeem;
  /** Notes that something is bound to the session of an identity. */
  readonly bindSession: BindSession;
  /** Whether `endSession` ended a session, since something was bound to it. */
  readonly isSessionOver: (sessionId: string) => Promise<boolean>;
  readonly beginAudit: BeginAudit;
  /** Throws a `TypeError` for a server that another Sluice is attached to. */
  readonly ensureOwn: (mcp: McpServer) => void;
  /** Tells that this process serves its download URLs, so that no warning is due. */
  markServed(): void;
  readonly onError: (error: unknown) => void;
  readonly onWarning: (message: string) => void;
}
