import type { FetchLike } from "@sluice/core";
import { ensureKnownOptions, tlsFault } from "@sluice/core/internal";
import { createFetchExchange } from "../net/fetch-exchange.ts";
import { httpExchange } from "../net/node/http-exchange.ts";
import { interceptSend, type DownloadSide, type SendingTransport } from "./with-downloads.ts";
import { streamingCapabilities } from "./stream-calls.ts";
import type { Streaming, StreamingOptions } from "./streaming.ts";
import { interceptFetch } from "./with-streaming.ts";

/**
 * Makes a client of the MCP SDK, version 1 or 2, one that streams: the transport gets `fetch`, the client
 * `capabilities`. The fetch takes the responses to `resources/stream` aside for `streamResource`: bytes and redirects never
 * reach the SDK. All other requests pass as they are. `connect` does the same for a client of its own.
 *
 * Without a `fetch` of yours, bytes travel over the HTTP client of Node, with every check on addresses and framing.
 */
export function createStreaming(options: StreamingOptions = {}): Streaming {
  ensureKnownOptions("createStreaming", options, optionNames);
  const { fetch, bytes = "fetch", ...streaming } = options;
  if (bytes !== "fetch" && bytes !== "node")
    throw new TypeError('createStreaming: bytes is "fetch" or "node"');
  return { fetch: withStreaming(fetch, bytes), capabilities: streamingCapabilities(streaming) };
}

const optionNames: Readonly<Record<keyof StreamingOptions, true>> = {
  fetch: true,
  bytes: true,
  maxStreamBytes: true,
  prefer: true,
};

/**
 * The fetch of {@link createStreaming} alone. With a fetch of the caller's and `bytes: "node"`, that one carries messages
 * only, and bytes travel as they do without one.
 */
export function withStreaming(fetch?: FetchLike, bytes?: "fetch" | "node"): FetchLike {
  return fetch && bytes !== "node"
    ? interceptFetch(
        fetch,
        createFetchExchange(fetch, { explain: (url, error) => tlsFault("client", url, error) }),
      )
    : interceptFetch(fetch ?? globalThis.fetch, httpExchange);
}

/**
 * Makes `streamResource` work over a transport that is not HTTP, as {@link createStreaming} does
 * over one that is: the server answers with a download URL, and `side` tells which origin may be asked
 * for it. It is called for each call. Changes `send` of the transport and gives it back.
 */
export function withDownloads<Sending extends SendingTransport>(
  transport: Sending,
  side: () => DownloadSide | Promise<DownloadSide>,
): Sending {
  return interceptSend(transport, side, httpExchange);
}
