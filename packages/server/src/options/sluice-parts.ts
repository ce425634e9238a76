import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import {
  createKeyRing,
  createTextSealer,
  formatKey,
  generateKey,
  principalTag,
  SluiceError,
  type KeyRing,
  type Principal,
  type TextSealer,
} from "@sluice/core";
import { createMemoryStateStore, type StateStore } from "@sluice/state";
import { createUriMapper, protect, type StorageBackend, type UriMapper } from "@sluice/storage";
import { bindTo, type BindSession } from "../access/bound-sessions.ts";
import { createAnswerAccount, type AnswerAccount } from "../grants/answer-lease.ts";
import { createAccess, ensureAllowed, type Access, type AccessAction } from "../access/access.ts";
import { createAuditTrail, type AuditTrail, type BeginAudit } from "../audit/audit.ts";
import { createChangeHub, type ChangeHub } from "../changes/change-hub.ts";
import { eraOf } from "../delivery/client-streaming.ts";
import { createFailedRedemptions, type FailedRedemptions } from "../grants/failed-redemptions.ts";
import { createGrants, type Grants } from "../grants/grants.ts";
import { createIdentify, type Caller, type Identity } from "../access/principal.ts";
import { createUsageMeter, type UsageMeter } from "../limits/rate-limits.ts";
import { reachOf, type Reach, type ReachRequest } from "../access/reach.ts";
import { notesOf } from "../delivery/request-notes.ts";
import { readEndpoint, type Endpoint, type SluiceOptions } from "./sluice-options.ts";
import { createStreamSlots, type StreamSlots } from "../limits/stream-limits.ts";
import type { CarrierReader } from "../audit/telemetry.ts";

/** What the handlers of one Sluice work with. */
export interface SluiceParts {
  readonly options: SluiceOptions;
  readonly endpoint: Endpoint;
  readonly mapper: UriMapper;
  readonly grants: Grants;
  /** Seals the cursors of lists. */
  readonly cursors: TextSealer;
  readonly keys: KeyRing;
  readonly state: StateStore;
  readonly slots: StreamSlots;
  /** Bytes of answers that are not sent yet. */
  readonly answers: AnswerAccount;
  /** Streams of `subscriptions/listen`. */
  readonly listeners: StreamSlots;
  readonly usage: UsageMeter;
  readonly failures: FailedRedemptions;
  readonly access: Access;
  readonly onError: (error: unknown) => void;
  storageOf(principal: Principal | undefined): StorageBackend;
  /** Where changes of a backend are heard, the same for everybody who uses it. */
  hubOf(backend: StorageBackend): ChangeHub;
  identify(caller: Caller): Identity | Promise<Identity>;
  /** Asks the access rules; throws what a client may learn. */
  ensureAccess(
    principal: Principal | undefined,
    uri: string,
    action: AccessAction,
  ): void | Promise<void>;
  /** Storage as a principal may use it for one resource; throws what a client may learn. */
  reach(request: ReachRequest): Promise<Reach>;
  /** Address of the client of a request, where it is known. Never throws. */
  addressOf(caller: Caller): string | undefined;
  beginAudit: BeginAudit;
  readonly flushAudit: AuditTrail["flush"];
  /** Runs work that outlives the call it begins in, outside of the call's trace. */
  runApart<Result>(work: () => Result): Result;
  readonly mint: Grants["mint"];
  /** Download URLs have a route in this process. Without one the first URL that is issued is warned of. */
  markServed(): void;
  /** Notes that something is bound to the session of this identity. */
  readonly bindSession: BindSession;
}

/** Puts the parts together; throws a `TypeError` or `RangeError` for options that cannot work. */
export function createSluiceParts(options: SluiceOptions): SluiceParts {
  ensureGiven(options);
  const {
    storage,
    limits = {},
    telemetry,
    // oxlint-disable-next-line no-console -- the documented default
    onError = (error) => console.error("sluice:", error),
    // oxlint-disable-next-line no-console -- the documented default
    onWarning = (message) => console.warn(`sluice: ${message}`),
  } = options;
  const endpoint = readEndpoint(options.endpoint);
  ensureCount("pageSize", options.pageSize, 1);
  ensureCount("cacheTtlMs", options.cacheTtlMs, 0);
  const warning = openWarning(options, endpoint);
  if (warning !== undefined) onWarning(warning);
  const keys = readKeys(options, onWarning);
  const access = createAccess(options.access, options.accessPage);
  const mapper = createUriMapper(options.baseUri);
  const storageOf = createStorageOf(storage);
  const state = options.state ?? createMemoryStateStore();
  const bindSession = bindTo(state);
  const issuing = createGrants({
    keys,
    state,
    bindSession,
    endpoint: endpoint.url,
    grant: options.grant ?? {},
  });
  let isSettled = false;
  const grants: Grants = {
    ...issuing,
    async mint(...args) {
      const minted = await issuing.mint(...args);
      if (minted && !isSettled) {
        isSettled = true;
        onWarning(unservedWarning);
      }
      return minted;
    },
  };
  const runApart: SluiceParts["runApart"] = (work) =>
    telemetry ? telemetry.runApart(work) : work();
  const hubs = new WeakMap<StorageBackend, ChangeHub>();
  const trail = createAuditTrail({ audit: options.audit, telemetry, onError });

  return {
    options,
    endpoint,
    keys,
    onError,
    mapper,
    access,
    grants,
    cursors: createTextSealer({ keys, purpose: "cursor" }),
    state,
    slots: createStreamSlots(limits, telemetry && ((change) => telemetry.countStreams(change))),
    answers: createAnswerAccount(limits.answers),
    listeners: createStreamSlots({ perPrincipal: 32, perProcess: 10_000, ...limits.listeners }),
    usage: createUsageMeter(limits, onError),
    failures: createFailedRedemptions(limits.failedRedemptions, onError),
    runApart,
    storageOf,
    hubOf(backend) {
      let hub = hubs.get(backend);
      if (!hub) hubs.set(backend, (hub = createChangeHub(backend, { onError, runApart })));
      return hub;
    },
    identify: createIdentify({
      principal: options.principal,
      anonymous: options.anonymous,
      isLoopback: endpoint.isLoopback,
      onWarning,
    }),
    ensureAccess(principal, uri, action) {
      const decision = access.decide(principal, uri, action);
      if (decision instanceof Promise) return decision.then(ensureAllowed);
      return ensureAllowed(decision);
    },
    reach: (request) => reachOf({ access, mapper }, storageOf(request.principal), request),
    addressOf(caller) {
      try {
        return options.address ? options.address(caller) : caller.address;
      } catch (error) {
        onError(error);
        return undefined;
      }
    },
    beginAudit: trail.begin,
    flushAudit: () => trail.flush(),
    mint: (identity, key, etag) => grants.mint(identity, key, etag),
    markServed: () => void (isSettled = true),
    bindSession,
  };
}

/**
 * Tag of a principal for records, counters and revocation; absent for the anonymous. The sessions
 * of one subject have one tag.
 */
export function tagOf(principal: Principal | undefined): string | undefined {
  if (!principal) return undefined;
  const { sessionId: _session, ...user } = principal;
  return principalTag(user.subject === "" ? principal : user);
}

/** Who makes the request that a handler is in. */
export function callerOf(ctx: ServerContext, mcp: McpServer): Caller {
  const request = ctx.http?.req;
  return {
    authInfo: ctx.http?.authInfo,
    address: notesOf(request).address,
    // the modern era has no sessions, whatever the header says
    sessionId: eraOf(mcp) === "modern" ? undefined : ctx.sessionId,
    header: (name) => request?.headers.get(name) ?? undefined,
  };
}

/** Reads what may carry a trace context in a request's `_meta` (SEP-414). */
export function carrierOf(ctx: ServerContext): CarrierReader {
  return carrierIn(ctx.mcpReq._meta);
}

/** The same for a `_meta` that nobody has looked at. */
export function carrierIn(meta: unknown): CarrierReader {
  return (name) => {
    const value = (meta as Record<string, unknown> | null | undefined)?.[name];
    return typeof value === "string" ? value : undefined;
  };
}

/** Backends with `protect` around them, each once: its gate and its retries are for all who use it. */
function createStorageOf(storage: SluiceOptions["storage"]): SluiceParts["storageOf"] {
  if (typeof storage !== "function") {
    const one = protect(storage);
    return () => one;
  }
  const known = new WeakMap<StorageBackend, StorageBackend>();
  return (principal) => {
    const backend = storage(principal);
    let safe = known.get(backend);
    if (!safe) known.set(backend, (safe = protect(backend)));
    return safe;
  };
}

const unservedWarning =
  "a download URL was issued, and nothing in this process serves it: serve the endpoint with withSluice(handler, sluice) of @sluice/transport-http, or let createSidecar serve it, here or in another process";

/** Throws a `TypeError` for options that were left out, as they are where a variable is not set. */
function ensureGiven(options: SluiceOptions): void {
  const { storage, keys } = (options as Partial<SluiceOptions> | undefined) ?? {};
  const isStorage = typeof storage === "function" || typeof storage?.open === "function";
  if (!isStorage)
    throw new TypeError(
      'createSluice: storage must be a backend, such as createFsBackend({ root: "./files" })',
    );
  if (keys === undefined)
    throw new TypeError(
      'createSluice: keys is undefined; pass what `sluice keys new` makes, or "ephemeral" for a single process',
    );
}

function readKeys(
  { keys, state }: Pick<SluiceOptions, "keys" | "state">,
  onWarning: (message: string) => void,
): KeyRing {
  if (keys === "ephemeral") {
    // a store that does not say counts as shared
    const shared: unknown = state ? state.shared : false;
    if (shared !== false)
      throw new TypeError(
        "createSluice: ephemeral keys are for a single process, and this state store is shared by several; " +
          "make keys with `sluice keys new` and give every process the same",
      );
    onWarning("ephemeral keys: download URLs die with this process and work in no other one");
    return createKeyRing(formatKey(generateKey()));
  }
  if (typeof keys === "object" && "derive" in keys) return keys;
  return createKeyRing(keys);
}

/** What an operator has to set where no option identifies a caller. */
function openWarning(
  { access, principal, anonymous }: SluiceOptions,
  { isLoopback }: SluiceParts["endpoint"],
): string | undefined {
  if (principal) return undefined;
  if (access)
    return "access rules without a principal resolver: any bearer token counts as somebody; pass principal to createSluice";
  if (isLoopback || anonymous === true) return undefined;
  return (
    "the endpoint is public and nothing says who its callers are: every client that reaches it may list and read everything; " +
    "verify access tokens in front of it and pass principal to createSluice, or pass anonymous: true where everyone may read"
  );
}

function ensureCount(name: string, value: number | undefined, least: number): void {
  if (value !== undefined && !(Number.isSafeInteger(value) && value >= least))
    throw new RangeError(`createSluice: ${name} must be a whole number from ${least}`);
}

/** For outcomes of the audit trail. */
export function outcomeOf(error: unknown): "denied" | "failed" {
  return SluiceError.is(error) && !faults.has(error.code) ? "denied" : "failed";
}

const faults: ReadonlySet<string> = new Set([
  "internal",
  "timeout",
  "unavailable",
  "interrupted",
  "corrupt",
  "protocol",
]);
