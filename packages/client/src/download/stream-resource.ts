import { fetchExchange } from "../net/fetch-exchange.ts";
import { needsNode } from "../net/needs-node.ts";
import type { RequestingClient } from "../calls/stream-calls.ts";
import { bodyOf, openResource } from "./open-resource.ts";
import type { ResourceStream } from "./resource-stream.ts";
import type { SaveResource } from "./save-options.ts";
import { settingsOf, type StreamOptions } from "./stream-options.ts";

/**
 * Asks an MCP server for the bytes of a resource (SEP-2532 §3) through an SDK client, version 1 or 2: one of `connect`,
 * or one whose transport has the fetch of `createStreaming`.
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
  return {
    ...opened.facts,
    body: bodyOf(opened),
    async saveTo() {
      const error = needsNode("saving");
      opened.cancel(error);
      throw error;
    },
  };
}

/**
 * Saves a resource as a file: {@link streamResource} and `saveTo` of its result. In Node and Bun; this portable code has
 * no file system, and rejects with `unsupported` before anything is requested.
 */
export const saveResource: SaveResource = async () => {
  throw needsNode("saving");
};

function isBrowser(): boolean {
  return "document" in globalThis || "WorkerGlobalScope" in globalThis;
}
