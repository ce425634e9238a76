import { SUBSCRIPTION_ID_META_KEY, type ScopeChallengeHandler } from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { backgroundClock, definedMembers, onAbort } from "@sluice/core/internal";
import { tagOf, type Callers, type Caller } from "../access/principal.ts";
import type { AuditTrail } from "../audit/audit.ts";
import { carrierIn } from "../audit/telemetry.ts";
import { outcomeOf, reasonOf, signInFault, faultOf, type RpcFault } from "../faults/rpc-fault.ts";
import type { UsageMeter } from "../limits/rate-limits.ts";
import type { StreamLimiter } from "../limits/stream-limiter.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { maxUris, type Subscriber, type Subscribers } from "./subscriber.ts";

/** A `subscriptions/listen` request (MCP 2026-07-28) as a transport sees it. */
export interface ListenRequest {
  readonly id: string | number;
  readonly params: Readonly<Record<string, unknown>> | undefined;
  readonly caller: Caller;
  readonly signal?: AbortSignal;
}

/** What a transport does with such a request. */
export interface Listening {
  /** For the SDK in place of what the client sent: without those of our resources that it may not follow. */
  readonly params: Readonly<Record<string, unknown>> | undefined;
  /** The next JSON-RPC notification for the stream, behind the SDK's acknowledgement; `undefined` at the end. */
  next(): Promise<object | undefined>;
  /** Ends the subscription. Call it at every end of the stream. Idempotent. */
  close(): void;
}

interface ListenParts {
  readonly callers: Callers;
  readonly usage: UsageMeter;
  readonly limiter: StreamLimiter;
  readonly audit: AuditTrail;
  readonly subscribers: Subscribers;
  readonly mounts: Mounts;
  readonly scopeChallenge: ScopeChallengeHandler | undefined;
  readonly resourceMetadataUrl: string | undefined;
  readonly onError: (error: unknown) => void;
}

/** Takes part in a `subscriptions/listen` request over HTTP. Never rejects. */
export type Listen = (request: ListenRequest) => Promise<Listening | { readonly fault: RpcFault }>;

/**
 * Answers a `subscriptions/listen` request, for resources of this Sluice. It leaves hidden, denied and
 * missing resources out of the filter alike, and all above 1,000.
 */
export async function listen(
  parts: ListenParts,
  request: ListenRequest,
): Promise<Listening | { readonly fault: RpcFault }> {
  try {
    return await beginListening(parts, request);
  } catch (error) {
    const isAnonymous = SluiceError.is(error) && error.code === "unauthenticated";
    if (isAnonymous) return { fault: signInFault(parts.resourceMetadataUrl, "modern") };
    const fault = faultOf(error, "modern");
    if (fault.data.reason === "internal" && !request.signal?.aborted) parts.onError(error);
    return { fault };
  }
}

async function beginListening(parts: ListenParts, request: ListenRequest): Promise<Listening> {
  const { callers, usage, limiter, subscribers, mounts } = parts;
  const { id, params } = request;
  const filter = params?.["notifications"];
  if (!isFilter(filter)) return deaf(params);
  const { resourceSubscriptions: uris = [], resourcesListChanged } = filter;
  const hearsList = resourcesListChanged === true;
  if (!hearsList && !uris.some((uri) => mounts.covers(uri))) return deaf(params);

  // stateless revisions have no sessions, even where a client sends the header
  const caller = { ...request.caller, sessionId: undefined };
  const { principal } = await callers.identify(caller);
  const isOurs = (uri: string): boolean => {
    const mount = mounts.mountOf(uri);
    return mount !== undefined && isThereFor(mount, principal);
  };
  // a longer list is cut, so that one request costs no more
  const ours = [...new Set(uris.filter(isOurs))].slice(0, maxUris);
  if (!hearsList && ours.length === 0) return deaf(params);
  const tag = tagOf(principal);
  await usage.admit(tag, "request");
  const address = callers.addressOf(caller);
  const release = limiter.take(tag, address);
  const subscriber = subscribers.create(principal);
  const follow = (uri: string): Promise<boolean> =>
    followOne(parts, { ...request, caller, address, uri, principal, subscriber });
  const followed = new Set<string>();
  try {
    for (let at = 0; at < ours.length; at += together) {
      const some = ours.slice(at, at + together);
      const results = await Promise.all(some.map(follow));
      for (const [n, uri] of some.entries()) if (results[n]) followed.add(uri);
    }
    if (hearsList) subscriber.hearLists();
  } catch (error) {
    subscriber.close();
    release();
    throw error;
  }
  const { signal } = request;
  let stopWatching: (() => void) | undefined;
  let cancelExpiry: (() => void) | undefined;
  const close = (): void => {
    stopWatching?.();
    cancelExpiry?.();
    subscriber.close();
    release();
  };
  // also when the stream that was about to begin is never read
  stopWatching = onAbort(signal, close);
  const { expiresAt } = caller.authInfo ?? {};
  // a stream that outlived its access token would tell a caller that has to authenticate again
  if (expiresAt !== undefined)
    cancelExpiry = backgroundClock.schedule(close, Math.max(0, expiresAt * 1_000 - Date.now()));
  if (signal?.aborted || (!hearsList && followed.size === 0)) close();
  const keptUris = uris.filter((uri) => !isOurs(uri) || followed.has(uri));
  return {
    params: { ...params, notifications: { ...filter, resourceSubscriptions: keptUris } },
    next: () => stamped(subscriber, id),
    close,
  };
}

interface FollowRequest extends ListenRequest {
  readonly address: string | undefined;
  readonly uri: string;
  readonly principal: Principal | undefined;
  readonly subscriber: Subscriber;
}

/** Subscribes to one resource, with one record; false when it may not be. */
async function followOne(parts: ListenParts, request: FollowRequest): Promise<boolean> {
  const { audit, subscribers, scopeChallenge } = parts;
  const { uri, address, principal, subscriber, signal } = request;
  const entry = audit.begin(
    { action: "subscribe", revision: "modern", uri, principal: tagOf(principal), address },
    carrierIn(request.params?.["_meta"]),
  );
  return entry.run(async () => {
    try {
      // a signal of its own: many that wait for one look like a leak to Node
      const ownSignal = signal && AbortSignal.any([signal]);
      const found = await subscribers.find({ uri, principal, signal: ownSignal });
      await ensureScopes(scopeChallenge, request);
      subscriber.follow(uri, found);
      // no change is sent before the whole request is answered
      await entry.conclude("complete");
      return true;
    } catch (error) {
      entry.end(signal?.aborted ? "aborted" : outcomeOf(error), { reason: reasonOf(error) });
      if (isRefusal(error)) return false;
      throw error;
    }
  });
}

const together = 16;

/** The SDK asks for the scopes of a resource when it is read; to hear of it takes the same. */
async function ensureScopes(
  scopeChallenge: ScopeChallengeHandler | undefined,
  { uri, id, caller: { authInfo } }: FollowRequest,
): Promise<void> {
  const challenge = await scopeChallenge?.({
    request: { jsonrpc: "2.0", id, method: "resources/read", params: { uri } },
    ...definedMembers({ authInfo }),
  });
  if (challenge)
    throw new SluiceError("permission_denied", "sluice: listen: the access token lacks scopes");
}

/** What the SDK answers alone. */
function deaf(params: Listening["params"]): Listening {
  return { params, next: async () => undefined, close() {} };
}

async function stamped(subscriber: Subscriber, id: string | number): Promise<object | undefined> {
  const notification = await subscriber.next();
  if (!notification) return undefined;
  const { method, params } = notification;
  const _meta = { [SUBSCRIPTION_ID_META_KEY]: id };
  return { jsonrpc: "2.0", method, params: { ...params, _meta } };
}

interface Filter {
  readonly resourceSubscriptions?: readonly string[];
  readonly resourcesListChanged?: unknown;
}

/** Anything else is the SDK's to refuse. */
function isFilter(value: unknown): value is Filter {
  if (typeof value !== "object" || value === null) return false;
  const { resourceSubscriptions: uris = [] } = value as { resourceSubscriptions?: unknown };
  return Array.isArray(uris) && uris.every((uri) => typeof uri === "string");
}

const refusals: ReadonlySet<string> = new Set([
  "not_found",
  "permission_denied",
  "invalid_argument",
  "unsupported",
  "throttled",
]);

function isRefusal(error: unknown): boolean {
  return SluiceError.is(error) && refusals.has(error.code);
}
