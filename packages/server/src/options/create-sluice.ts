import type { McpServer } from "@modelcontextprotocol/server";
import { createTextSealer, ensureKnownOptions } from "@sluice/core/internal";
import { createMemoryStores } from "@sluice/state";
import { bindTo, endSession, isSessionOver } from "../access/bound-sessions.ts";
import { createCallers } from "../access/principal.ts";
import { Attachments } from "../attach/attach.ts";
import { AuditTrail } from "../audit/audit.ts";
import { AnswerLeases } from "../calls/answer-lease.ts";
import { principalOfCall } from "../calls/call-principal.ts";
import { ResourceCalls } from "../calls/resource-calls.ts";
import { listen } from "../changes/listen.ts";
import { Subscribers } from "../changes/subscriber.ts";
import { DeliveryModes } from "../delivery/modes.ts";
import { createFailedRedemptions } from "../limits/failed-redemptions.ts";
import { UsageMeter } from "../limits/rate-limits.ts";
import { readSluiceLimits } from "../limits/sluice-limits.ts";
import { createStreamLimiter } from "../limits/stream-limiter.ts";
import { Transfers } from "../limits/transfers.ts";
import { browseFolder } from "../resources/browse-folder.ts";
import { createResourceLink } from "../resources/resource-link.ts";
import { ResourceReader } from "../resources/resource-reader.ts";
import { walkFolder } from "../resources/walk-folder.ts";
import { ensureDeliveryOptions } from "../storage/delivery-policy.ts";
import { storageMount, defaultMaxReadBytes, namePrefixOf } from "../storage/mount.ts";
import { Mounts } from "../storage/mounts.ts";
import { providerMount } from "../storage/provider-mount.ts";
import { callNamed } from "../tools/named-call.ts";
import { Grants } from "../urls/grants.ts";
import { createLink, type CreateLink } from "../urls/create-link.ts";
import { Redemptions } from "../urls/redeem.ts";
import { revoke } from "../urls/revoke.ts";
import {
  readEndpoint,
  ensureClientAddress,
  ensureCount,
  ensureGuarded,
  ensureStores,
  accessWarning,
  linkLifeWarning,
  areFollowed,
  mountsIn,
  readKeys,
  readLinks,
  redirectWarning,
  sluiceOptions,
  usualTokens,
} from "./check-options.ts";
import type { SluiceOptions } from "./sluice-options.ts";
import type { Sluice } from "./sluice.ts";

/**
 * Makes a Sluice: storage on one side, MCP servers on the other. Throws a `TypeError` or
 * `RangeError` for options that cannot work.
 */
export function createSluice(options: SluiceOptions = {}): Sluice {
  ensureKnownOptions("createSluice", options, sluiceOptions);
  const mountOptions = mountsIn(options);
  const { rates = {}, telemetry, grant = {}, cacheTtlMs } = options;
  const limits = readSluiceLimits(options.limits);
  const { resourceMetadataUrl, scopeChallenge, stores = createMemoryStores() } = options;
  ensureStores(stores);
  const { state } = stores;
  // oxlint-disable-next-line no-console -- the documented default
  const { onError = (error) => console.error("sluice:", error) } = options;
  // oxlint-disable-next-line no-console -- the documented default
  const { onWarning = (message) => console.warn(`sluice: ${message}`) } = options;

  const endpoint = readEndpoint(options.endpoint);
  ensureCount("pageSize", options.pageSize, 1);
  ensureCount("cacheTtlMs", cacheTtlMs, 0);
  ensureDeliveryOptions(options);
  ensureGuarded(options, endpoint);
  const mounts = new Mounts(
    mountOptions.map((mount) => {
      ensureDeliveryOptions(mount);
      // the keys of a single storage are the names of its resources
      const namePrefix = options.mounts ? namePrefixOf(mount.baseUri) : "";
      return storageMount(mount, { namePrefix, rules: options, onError });
    }),
  );
  const redirectWarnings = mountOptions.map((mount, at) =>
    redirectWarning(mount, mounts.storages[at]!),
  );
  for (const warning of [accessWarning(options), linkLifeWarning(options), ...redirectWarnings])
    if (warning !== undefined) onWarning(warning);
  const keys = readKeys(options, endpoint, onWarning);
  const runApart = <Result>(work: () => Result): Result =>
    telemetry ? telemetry.runApart(work) : work();

  // callers and their download URLs
  const { principal, anonymous, clientAddress = 0 } = options;
  ensureClientAddress(clientAddress);
  const { isLoopback } = endpoint;
  const callers = createCallers({
    principal,
    anonymous,
    clientAddress,
    isLoopback,
    onWarning,
    onError,
  });
  const bindSession = bindTo(state);
  const audience = endpoint.url;
  const linkRules = readLinks(options, endpoint);
  const rules = linkRules ?? {};
  const tokens = rules.tokens ?? usualTokens(options);
  const grants = new Grants({
    keys,
    state,
    bindSession,
    audience,
    grant,
    links: rules,
    linkTokens: tokens,
    onWarning,
  });

  // limits and records
  const usage = new UsageMeter(rates, onError);
  const failures = createFailedRedemptions(rates.failedRedemptions, onError);
  const limiter = createStreamLimiter(limits.streams, (change) => telemetry?.countStreams(change));
  const leases = new AnswerLeases(limiter, limits.responseBytes);
  const audit = new AuditTrail({ audit: options.audit, telemetry, onError });

  // content and changes of resources
  const transfers = new Transfers({ limiter, usage, onError });
  const calls = new ResourceCalls({ callers, usage, audit, resourceMetadataUrl, onError });
  const reader = new ResourceReader({ calls, mounts, transfers, leases });
  const subscribers = new Subscribers({ mounts, runApart, onError });

  // methods of an MCP server
  const { pageSize, maxReadBytes = defaultMaxReadBytes } = options;
  const cursors = createTextSealer({ keys, purpose: "cursor" });
  const modes = new DeliveryModes({ transfers, grants, cacheTtlMs, onError });
  const streaming = {
    calls,
    mounts,
    modes,
    leases,
    maxReadBytes,
    transfers,
    resourceMetadataUrl,
    onError,
  };
  const hasLinks = linkRules !== undefined;
  const listing = { calls, mounts, cursors, audience, pageSize };
  const attachments = new Attachments({
    calls,
    callers,
    mounts,
    subscribers,
    scopeChallenge,
    cacheTtlMs,
    reader,
    streaming,
    listing,
    tools: {
      calls,
      mounts,
      reader,
      // `link` needs `attachments`, which needs `link`
      link: (...asked) => link(...asked),
      hasLinks,
      onError,
    },
    runApart,
    onError,
  });
  const linking = {
    calls,
    mounts,
    grants: hasLinks ? grants : undefined,
    rules,
    isOursOn: (mcp: McpServer) => attachments.isOursOn(mcp),
    onError,
  };
  const link: CreateLink = (uri, linkOptions) => createLink(linking, uri, linkOptions);

  const ensureOwn = (mcp: McpServer): void => attachments.ensureOwn(mcp);
  const redemptions = new Redemptions({
    callers,
    usage,
    transfers,
    grants,
    mounts,
    audit,
    failures,
    exactTypes: options.exactTypes ?? false,
    resourceMetadataUrl,
    onError,
  });
  const listening = {
    callers,
    usage,
    limiter: createStreamLimiter(limits.listeners),
    audit,
    subscribers,
    mounts,
    scopeChallenge,
    resourceMetadataUrl,
    onError,
  };

  return {
    endpoint,
    baseUris: mounts.storages.map(({ mapper }) => mapper.baseUri),
    host: {
      endpoint,
      keys,
      stores,
      nameOf: (uri) => mounts.placeOf(uri).name,
      usage,
      failures,
      isOpenByDefault: isLoopback && principal === undefined && anonymous === undefined,
      identify: callers.identify,
      proxyHops: typeof clientAddress === "number" ? clientAddress : 0,
      addressOf: callers.addressOf,
      async authorize({ name, ...asked }) {
        const { mount, key } = mounts.placeNamed(name);
        const uri = mount.mapper.toUri(key);
        return { key, uri, storage: await mount.storageAccess.authorize({ ...asked, key }) };
      },
      mint: (identity, name, etag) => grants.mint(identity, name, etag),
      mintLink: (identity, terms) => grants.mintLink(identity, terms),
      tokens,
      isSelfAuthenticating: (token) => grants.isSelfAuthenticating(token),
      walk: (request) => walkFolder(mounts, request),
      browse: (request) => browseFolder({ calls, mounts, cursors, audience }, request),
      hasLinks,
      callNamed: (call, run) => callNamed({ calls, mounts }, call, run),
      listen: (request) => listen(listening, request),
      redeem: (request) => redemptions.redeem(request),
      bindSession,
      isSessionOver: (sessionId) => isSessionOver(state, sessionId),
      beginAudit: (facts, carrier) => audit.begin(facts, carrier),
      ensureOwn,
      markServed: () => grants.markServed(),
      onError,
      onWarning,
    },
    attach(mcp, attachOptions = {}) {
      attachments.attach(mcp, attachOptions);
      return mcp;
    },
    provide(uriOrTemplate, provider) {
      mounts.add(providerMount(uriOrTemplate, provider, { rules: options, onError }));
    },
    link,
    resourceLink: (uri, linkOptions) => createResourceLink(linking, uri, linkOptions),
    principal: (call) => principalOfCall({ callers, ensureOwn, onError }, call),
    revoke: (revocation) =>
      revoke({ grants, mounts, state, revocable: grant.revocable }, revocation),
    endSession: (sessionId) => endSession(state, sessionId),
    async close() {
      await audit.flush();
      const { keys: given } = options;
      if (areFollowed(given)) given.close();
      try {
        await Promise.all(
          mountOptions.map(async ({ storage }) => {
            if (typeof storage === "object") await storage.close?.();
          }),
        );
      } finally {
        await audit.close();
      }
    },
  };
}
