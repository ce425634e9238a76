import type { FetchLike } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { needsNode } from "../net/needs-node.ts";
import { streamingCapabilities, type StreamingCapabilities } from "./stream-calls.ts";
import { withStreaming } from "./with-streaming.ts";

/** Options of {@link createStreaming}. */
export interface StreamingOptions {
  /** Carries the requests of the transport, for example through a proxy. Default: the `fetch` of the platform. */
  readonly fetch?: FetchLike;
  /**
   * What carries the bytes where `fetch` is yours. `fetch`: it does, and the checks on addresses are its job. `node`:
   * the HTTP client of Node, with every check on addresses and framing, as without a `fetch` of yours; elsewhere it is
   * `unsupported`. Default: `fetch`.
   */
  readonly bytes?: "fetch" | "node";
  /** Largest stream in bytes that the client declares to accept; each call declares its own. Default: any. */
  readonly maxStreamBytes?: number;
  /** Modes that the client declares to prefer, best first. Default: the server chooses. */
  readonly prefer?: readonly DeliveryMode[];
}

/** Both halves of a client that streams; one without the other moves no bytes. */
export interface Streaming {
  /** For the `fetch` option of an SDK's HTTP transport, version 1 or 2. */
  readonly fetch: FetchLike;
  /** For the `capabilities` of its client, beside others. */
  readonly capabilities: StreamingCapabilities;
}

/**
 * Makes a client of the MCP SDK, version 1 or 2, one that streams: the transport gets `fetch`, the client
 * `capabilities`. The fetch takes the answers to `resources/stream` aside for `streamResource`: bytes and redirects never
 * reach the SDK. All other requests pass as they are. `connect` does the same for a client of its own.
 */
export function createStreaming({
  fetch,
  bytes = "fetch",
  ...declared
}: StreamingOptions = {}): Streaming {
  if (bytes !== "fetch") throw needsNode('bytes: "node"');
  return { fetch: withStreaming(fetch), capabilities: streamingCapabilities(declared) };
}
