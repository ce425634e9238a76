import { createTextSealer } from "@sluice/core";
import { createMemoryStateStore } from "@sluice/state";
import { createUriMapper } from "@sluice/storage";
import { createAccess } from "../access/access.ts";
import { createStorageAccess } from "../access/authorized-storage.ts";
import { bindTo, endSession, isSessionOver } from "../access/bound-sessions.ts";
import { createCallers } from "../access/principal.ts";
import { createAuditTrail } from "../audit/audit.ts";
import { createAttachSubscriptions } from "../changes/attach-subscriptions.ts";
import { createChangeHubs } from "../changes/change-hubs.ts";
import { createListen, type Listen } from "../changes/listen.ts";
import { createSubscribers } from "../changes/subscriber.ts";
import { createDirect } from "../delivery/direct.ts";
import { createDownloadUrl } from "../delivery/download-url.ts";
import { createRedirect } from "../delivery/redirect.ts";
import { createStreamResource } from "../delivery/stream-resource.ts";
import { createTransfers } from "../delivery/transfers.ts";
import { createFailedRedemptions } from "../grants/failed-redemptions.ts";
import { createGrants } from "../grants/grants.ts";
import { createRedeem, type Redeem } from "../grants/redeem.ts";
import { revoke, type Revocation } from "../grants/revoke.ts";
import { warnWhenUnserved } from "../grants/served-grants.ts";
import { createAnswerAccount } from "../limits/answer-lease.ts";
import { createStreamLimiter } from "../limits/stream-limiter.ts";
import { createUsageMeter } from "../limits/rate-limits.ts";
import { createCacheHint } from "../resources/cache-hint.ts";
import { createAttachList } from "../resources/list-resources.ts";
import { createAttachTemplates } from "../resources/list-templates.ts";
import { createAttachReadTool } from "../resources/read-tool.ts";
import { createResourceEntries } from "../resources/resource-entry.ts";
import { createLinkTo, type LinkTo } from "../resources/resource-link.ts";
import { createResourceReader } from "../resources/resource-reader.ts";
import { createAttachCompletion } from "../sdk/attach-completion.ts";
import { createAttachments, type AttachOptions } from "../sdk/attach.ts";
import { createProtocolErrors } from "../sdk/protocol-errors.ts";
import { createResourceCalls } from "../sdk/resource-calls.ts";
import type { AnyMcpServer } from "../sdk/sdk-v1.ts";
import { ensureCount, ensureGiven, openWarning, readKeys } from "./check-options.ts";
import { readEndpoint, type Endpoint } from "./endpoint.ts";
import type { Host } from "./host.ts";
import type { SluiceOptions } from "./sluice-options.ts";

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
   * `templates/list`, `subscribe` and `stream`, and completions, in both kinds of protocol revision, beside what
   * its author registered. Takes a `McpServer` of SDK v2, and a `McpServer` or low-level `Server` of SDK v1 from 1.26 on, which
   * serves MCP 2025-11-25 and older; what a low-level `Server` answers itself below `resources/` it has to know before.
   * Gives the same server back. A server takes one Sluice. Throws a `TypeError` that says what cannot be had on a server.
   */
  attach<Mcp extends AnyMcpServer>(mcp: Mcp, options?: AttachOptions): Mcp;
  /**
   * The content of a tool's result that points to a resource: a `resource_link` with its metadata and the
   * beginning of its text, both of one version. Rejects with `not_found` for what the caller may not read.
   */
  readonly link: LinkTo;
  /** Takes part in a `subscriptions/listen` request over HTTP. For transports. */
  readonly listen: Listen;
  /** Answers a GET or HEAD to a download URL. Never rejects. For transports. */
  readonly redeem: Redeem;
  /**
   * Withdraws download URLs that were issued up to now, sealed or stored, in every process that shares the state store. A
   * transfer that runs is not ended. Where the store is shared, clocks may differ: URLs made for that principal or resource
   * within the next 5 s are withdrawn, too. Rejects with `not_found` for a token that is none of ours, `unavailable`
   * while the store is down, and `unsupported` where `grant.revocable` is false.
   */
  revoke(revocation: Revocation): Promise<void>;
  /**
   * Ends a session of a session revision, in every process that shares the state store: download URLs and links that are
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
  ensureGiven(options);
  const {
    limits = {},
    telemetry,
    grant = {},
    cacheTtlMs,
    redirectOrigins = [],
    resourceMetadataUrl,
    scopeChallenge,
    state = createMemoryStateStore(),
    // oxlint-disable-next-line no-console -- the documented default
    onError = (error) => console.error("sluice:", error),
    // oxlint-disable-next-line no-console -- the documented default
    onWarning = (message) => console.warn(`sluice: ${message}`),
  } = options;

  const endpoint = readEndpoint(options.endpoint);
  ensureCount("pageSize", options.pageSize, 1);
  ensureCount("cacheTtlMs", cacheTtlMs, 0);
  const warning = openWarning(options, endpoint);
  if (warning !== undefined) onWarning(warning);
  const keys = readKeys(options, onWarning);

  // callers, their storage and their download URLs
  const access = createAccess(options.access, options.accessPage);
  const mapper = createUriMapper(options.baseUri);
  const { baseUri, template } = mapper;
  const storages = createStorageAccess({ storage: options.storage, access, mapper });
  const bindSession = bindTo(state);
  const { grants, markServed } = warnWhenUnserved(
    createGrants({ keys, state, bindSession, endpoint: endpoint.url, grant }),
    onWarning,
  );
  const callers = createCallers({
    principal: options.principal,
    anonymous: options.anonymous,
    address: options.address,
    isLoopback: endpoint.isLoopback,
    onWarning,
    onError,
  });

  // limits and records
  const audit = createAuditTrail({ audit: options.audit, telemetry, onError });
  const usage = createUsageMeter(limits, onError);
  const failures = createFailedRedemptions(limits.failedRedemptions, onError);
  const limiter = createStreamLimiter(
    limits,
    telemetry && ((change) => telemetry.countStreams(change)),
  );
  const listeners = createStreamLimiter({
    perPrincipal: 32,
    perProcess: 10_000,
    ...limits.listeners,
  });
  const limiters = { limiter, answers: createAnswerAccount(limits.answers) };
  const transfers = createTransfers({ limiter, usage, onError });

  // handlers
  const runApart = <Result>(work: () => Result): Result =>
    telemetry ? telemetry.runApart(work) : work();
  const hubs = createChangeHubs({ onError, runApart });
  const subscribers = createSubscribers({ hubs, storages, access, mapper, onError });
  const calls = createResourceCalls({ callers, usage, audit });
  const errors = createProtocolErrors({ resourceMetadataUrl, onError });
  const entries = createResourceEntries({ mapper, describe: options.describe, onError });
  const cacheHint = createCacheHint(cacheTtlMs);
  const reader = createResourceReader({
    calls,
    mapper,
    storages,
    transfers,
    limiters,
    maxReadBytes: options.maxReadBytes,
  });
  const streamResource = createStreamResource({
    calls,
    mapper,
    storages,
    policy: options.delivery,
    redirectOrigins,
    modes: {
      direct: createDirect({ transfers, grants, onError }),
      redirect: createRedirect(transfers, redirectOrigins),
      downloadUrl: createDownloadUrl(grants, cacheTtlMs),
    },
    resourceMetadataUrl,
    onError,
  });
  const attachments = createAttachments({
    mapper,
    scopeChallenge,
    errors,
    cacheHint,
    reader,
    streamResource,
    list: createAttachList({
      calls,
      errors,
      entries,
      storages,
      access,
      mapper,
      cursors: createTextSealer({ keys, purpose: "cursor" }),
      endpoint: endpoint.url,
      pageSize: options.pageSize,
      cacheHint,
    }),
    templates: createAttachTemplates({ calls, errors, template, cacheHint }),
    completion: createAttachCompletion({ calls, errors, storages, access, mapper }),
    subscriptions: createAttachSubscriptions({
      calls,
      errors,
      callers,
      subscribers,
      baseUri,
      runApart,
      onError,
    }),
    readTool: createAttachReadTool({ calls, reader, entries, baseUri, onError }),
  });
  const { isOursOn } = attachments;

  return {
    endpoint,
    baseUri,
    host: {
      endpoint,
      keys,
      state,
      mapper,
      usage,
      failures,
      identify: callers.identify,
      addressOf: callers.addressOf,
      authorize: storages.authorize,
      mint: grants.mint,
      bindSession,
      beginAudit: audit.begin,
      markServed,
      onError,
    },
    attach(mcp, attachOptions = {}) {
      attachments.attach(mcp, attachOptions);
      return mcp;
    },
    link: createLinkTo({ calls, mapper, storages, entries, isOursOn, onError }),
    listen: createListen({
      callers,
      usage,
      limiter: listeners,
      audit,
      subscribers,
      baseUri,
      scopeChallenge,
      resourceMetadataUrl,
      onError,
    }),
    redeem: createRedeem({
      callers,
      usage,
      transfers,
      grants,
      mapper,
      storages,
      audit,
      failures,
      exactTypes: options.exactTypes ?? false,
      resourceMetadataUrl,
      onError,
    }),
    revoke: (revocation) =>
      revoke({ grants, mapper, state, revocable: grant.revocable }, revocation),
    endSession: (sessionId) => endSession(state, sessionId),
    isSessionOver: (sessionId) => isSessionOver(state, sessionId),
    close: () => audit.flush(),
  };
}
