import { SUBSCRIPTION_ID_META_KEY } from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { reasonOf } from "../access/access.ts";
import type { AuditEntry } from "../audit/audit.ts";
import type { Caller } from "../access/principal.ts";
import { signInFault } from "../access/sign-in-fault.ts";
import { faultOf, type RpcFault } from "../sdk/rpc-fault.ts";
import { carrierIn, outcomeOf, tagOf, type SluiceParts } from "../options/sluice-parts.ts";
import { createSubscriber, mostUris, subscribable, type Subscriber } from "./subscriber.ts";

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
  /** Call it when the stream ends, however it does. Idempotent. */
  close(): void;
}

/**
 * Takes the part of a `subscriptions/listen` request that concerns resources of this Sluice. What is
 * hidden, denied or missing is left out of the filter alike, and so is what is above 1,000 resources.
 * Never rejects.
 */
export async function listen(
  parts: SluiceParts,
  request: ListenRequest,
): Promise<Listening | { readonly fault: RpcFault }> {
  try {
    return await beginListening(parts, request);
  } catch (error) {
    const isAnonymous = SluiceError.is(error) && error.code === "unauthenticated";
    if (isAnonymous) return { fault: signInFault(parts, "modern") };
    const fault = faultOf(error, "modern");
    if (fault.data.reason === "internal" && !request.signal?.aborted) parts.onError(error);
    return { fault };
  }
}

async function beginListening(parts: SluiceParts, request: ListenRequest): Promise<Listening> {
  const { id, params } = request;
  const filter = params?.["notifications"];
  if (!isFilter(filter)) return deaf(params);
  const { resourceSubscriptions: uris = [], resourcesListChanged } = filter;
  const isOurs = (uri: string): boolean => uri.startsWith(parts.mapper.baseUri);
  // what is above is not even looked at: one request must not cost more
  const ours = [...new Set(uris.filter(isOurs))].slice(0, mostUris);
  if (ours.length === 0 && resourcesListChanged !== true) return deaf(params);

  // the modern era has no sessions, whatever the header says
  const caller = { ...request.caller, sessionId: undefined };
  const { principal } = await parts.identify(caller);
  const tag = tagOf(principal);
  await parts.usage.admit(tag, "request");
  const release = parts.listeners.take(tag, caller.address);
  const subscriber = createSubscriber(parts, principal);
  const follow = (uri: string): Promise<boolean> =>
    followOne(parts, { ...request, caller, uri, principal, subscriber });
  const followed = new Set<string>();
  try {
    for (let at = 0; at < ours.length; at += together) {
      const some = ours.slice(at, at + together);
      const results = await Promise.all(some.map(follow));
      for (const [n, uri] of some.entries()) if (results[n]) followed.add(uri);
    }
  } catch (error) {
    subscriber.close();
    release();
    throw error;
  }
  const { signal } = request;
  const close = (): void => {
    signal?.removeEventListener("abort", close);
    subscriber.close();
    release();
  };
  // also when nobody reads the stream that was about to begin
  signal?.addEventListener("abort", close, { once: true });
  if (resourcesListChanged === true) subscriber.hearLists();
  if (signal?.aborted || (resourcesListChanged !== true && followed.size === 0)) close();
  const kept = uris.filter((uri) => !isOurs(uri) || followed.has(uri));
  return {
    params: { ...params, notifications: { ...filter, resourceSubscriptions: kept } },
    next: () => stamped(subscriber, id),
    close,
  };
}

interface FollowRequest extends ListenRequest {
  readonly uri: string;
  readonly principal: Principal | undefined;
  readonly subscriber: Subscriber;
}

/** Subscribes to one resource, with one record; false when it may not be. */
async function followOne(parts: SluiceParts, request: FollowRequest): Promise<boolean> {
  const { uri, caller } = request;
  const principal = tagOf(request.principal);
  const address = parts.addressOf(caller);
  const facts = { action: "subscribe", era: "modern", uri, principal, address } as const;
  const entry = parts.beginAudit(facts, carrierIn(request.params?.["_meta"]));
  return entry.run(() => tryToFollow(parts, request, entry));
}

async function tryToFollow(
  parts: SluiceParts,
  request: FollowRequest,
  entry: AuditEntry,
): Promise<boolean> {
  const { uri, principal, subscriber, signal } = request;
  try {
    // a signal of its own: many that wait for one look like a leak to Node
    const own = signal && { signal: AbortSignal.any([signal]) };
    const info = await subscribable(parts, { uri, principal, ...own });
    await ensureScopes(parts, request);
    subscriber.follow(uri, info);
    // nothing is told before the whole of the request is answered
    await entry.conclude("complete");
    return true;
  } catch (error) {
    entry.end(signal?.aborted ? "aborted" : outcomeOf(error), { reason: reasonOf(error) });
    if (isRefusal(error)) return false;
    throw error;
  }
}

/** Resources that are looked at together. */
const together = 16;

/** The SDK asks for the scopes of a resource when it is read; to hear of it takes the same. */
async function ensureScopes(
  { options }: SluiceParts,
  { uri, id, caller: { authInfo } }: FollowRequest,
): Promise<void> {
  const challenge = await options.scopeChallenge?.({
    request: { jsonrpc: "2.0", id, method: "resources/read", params: { uri } },
    ...(authInfo && { authInfo }),
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
