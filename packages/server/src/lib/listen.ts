import { SUBSCRIPTION_ID_META_KEY } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { Caller } from "./principal.ts";
import type { SluiceParts } from "./sluice-parts.ts";
import { createSubscriber, subscribable, type Subscriber } from "./subscriber.ts";

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
 * Takes the part of a `subscriptions/listen` request that concerns resources of this Sluice. What is hidden,
 * denied or missing is left out of the filter alike, and so is what is more than 1,000 resources.
 */
export async function listen(
  parts: SluiceParts,
  { id, params, caller, signal }: ListenRequest,
): Promise<Listening> {
  const filter = params?.["notifications"];
  if (!isFilter(filter)) return deaf(params);
  const { resourceSubscriptions: uris = [], resourcesListChanged } = filter;
  const { baseUri } = parts.mapper;
  const ours = uris.filter((uri) => uri.startsWith(baseUri));
  if (ours.length === 0 && resourcesListChanged !== true) return deaf(params);

  const { principal } = await parts.identify({ ...caller, sessionId: undefined });
  const subscriber = createSubscriber(parts, principal);
  const followed = new Set<string>();
  const follow = async (uri: string): Promise<void> => {
    try {
      const info = await subscribable(parts, { uri, principal, ...(signal && { signal }) });
      await ensureScopes(parts, { uri, id, caller });
      subscriber.follow(uri, info);
      followed.add(uri);
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
  };
  try {
    for (let at = 0; at < ours.length; at += together)
      await Promise.all(ours.slice(at, at + together).map(follow));
  } catch (error) {
    subscriber.close();
    throw error;
  }
  if (resourcesListChanged === true) subscriber.hearLists();
  else if (followed.size === 0) subscriber.close();
  const kept = uris.filter((uri) => !uri.startsWith(baseUri) || followed.has(uri));
  return {
    params: { ...params, notifications: { ...filter, resourceSubscriptions: kept } },
    next: () => stamped(subscriber, id),
    close: () => subscriber.close(),
  };
}

/** Resources that are looked at together. */
const together = 16;

/** The SDK asks for the scopes of a resource when it is read; to hear of it takes the same. */
async function ensureScopes(
  { options }: SluiceParts,
  { uri, id, caller: { authInfo } }: { uri: string; id: string | number; caller: Caller },
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
