import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { FIRST_MODERN_VERSION } from "@sluice/core/internal";
import { isMembers, membersOf, type Members } from "./messages.ts";

// Members of `_meta` with which each request of 2026-07-28 says what `initialize` said before.
export const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
export const CLIENT_INFO_KEY = "io.modelcontextprotocol/clientInfo";
export const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";
export const LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel";
/** In the `_meta` of results: the server's name and version. */
export const SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo";
/** In the `_meta` of notifications: the request for which they come. */
export const SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId";

const envelopeKeys = [VERSION_KEY, CLIENT_INFO_KEY, CAPABILITIES_KEY, LOG_LEVEL_KEY] as const;

/** The envelope of a request; undefined for a request of an older revision. */
export function envelopeOf(request: JSONRPCRequest): Members | undefined {
  const meta = membersOf(membersOf(request.params)["_meta"]);
  if (typeof meta[VERSION_KEY] !== "string") return undefined;
  return Object.fromEntries(
    envelopeKeys.filter((key) => key in meta).map((key) => [key, meta[key]]),
  );
}

/** The request with the members of `envelope` in its `_meta`. */
export function withEnvelope(request: JSONRPCRequest, envelope: Members): JSONRPCRequest {
  const params = membersOf(request.params);
  return {
    ...request,
    params: { ...params, _meta: { ...membersOf(params["_meta"]), ...envelope } },
  };
}

/** The request without its envelope. An empty `_meta` goes with it. */
export function withoutEnvelope(request: JSONRPCRequest): JSONRPCRequest {
  const params: Record<string, unknown> = { ...membersOf(request.params) };
  const meta: Record<string, unknown> = { ...membersOf(params["_meta"]) };
  for (const key of envelopeKeys) delete meta[key];
  if (Object.keys(meta).length > 0) params["_meta"] = meta;
  else delete params["_meta"];
  return { ...request, params };
}

/** What the client can do, from its `initialize` or from an envelope. */
export function capabilitiesIn(request: JSONRPCRequest): Members {
  const params = membersOf(request.params);
  if (request.method === "initialize") return membersOf(params["capabilities"]);
  return membersOf(membersOf(params["_meta"])[CAPABILITIES_KEY]);
}

/** The envelope that says what `initialize` said. */
export function envelopeFrom(initialize: JSONRPCRequest): Members {
  const { clientInfo, capabilities } = membersOf(initialize.params);
  const envelope: Record<string, unknown> = {
    [VERSION_KEY]: FIRST_MODERN_VERSION,
    [CAPABILITIES_KEY]: membersOf(capabilities),
  };
  if (isMembers(clientInfo)) envelope[CLIENT_INFO_KEY] = clientInfo;
  return envelope;
}

/** The `_meta` of a notification or a result without one key; undefined when nothing is left. */
export function metaWithout(meta: unknown, key: string): Members | undefined {
  const { [key]: _dropped, ...rest } = membersOf(meta);
  return Object.keys(rest).length > 0 ? rest : undefined;
}
