import { fetchExchange } from "../net/fetch-exchange.ts";
import type { RequestingClient } from "../calls/stream-calls.ts";
import { createCache, type ResourceCache, type ResourceCacheOptions } from "./resource-cache.ts";
import { bodyOf, openResource } from "./open-resource.ts";
import { type ResourceStream, settingsOf, type StreamOptions } from "./stream-options.ts";

/**
 * Asks an MCP server for the bytes of a resource (SEP-2532 §3) through an SDK client, version 1 or
 * 2, whose transport has the {@link withStreaming} fetch.
 *
 * Rejects with `not_found`, `unsupported`, `too_large`, `permission_denied`, `unauthenticated`,
 * `throttled`, `untrusted`, `protocol`, `unavailable`, `timeout`, or with `signal.reason`.
 */
export async function streamResource(
  client: RequestingClient,
  uri: string,
  options: StreamOptions = {},
): Promise<ResourceStream> {
  // where redirects are hidden and responses read by others, a download URL works
  const settings = settingsOf({ ...(isBrowser() && { prefer: ["downloadUrl"] }), ...options });
  const opened = await openResource(client, uri, settings, fetchExchange);
  return { ...opened.facts, body: bodyOf(opened) };
}

/**
 * A cache of small resources and of facts about all of them, over `streamResource` and a client: it belongs only to
 * that client's principal.
 */
export function createResourceCache(
  client: RequestingClient,
  options: ResourceCacheOptions = {},
): ResourceCache {
  return createCache((uri, streamOptions) => streamResource(client, uri, streamOptions), options);
}

function isBrowser(): boolean {
  return "document" in globalThis || "WorkerGlobalScope" in globalThis;
}
