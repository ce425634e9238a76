import type { RequestingClient } from "./calls/stream-calls.ts";
import {
  createCache,
  type ResourceCache,
  type ResourceCacheOptions,
} from "./cache/resource-cache.ts";
import { streamResource } from "./save/savable-stream.ts";

// declarations here replace the portable export of the same name
export * from "./cache.ts";

/**
 * A cache of small resources and of facts about all of them, over `streamResource` and a client: it belongs only to
 * that client's principal. Experimental: it may change in a minor version.
 */
export function createResourceCache(
  client: RequestingClient,
  options: ResourceCacheOptions = {},
): ResourceCache {
  return createCache((uri, streamOptions) => streamResource(client, uri, streamOptions), options);
}
