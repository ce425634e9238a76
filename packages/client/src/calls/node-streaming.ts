import type { FetchLike } from "@sluice/core";
import { tlsFault } from "@sluice/core/internal";
import { createFetchExchange } from "../net/fetch-exchange.ts";
import { httpExchange } from "../net/node/http-exchange.ts";
import { interceptSend, type DownloadSide, type SendingTransport } from "./with-downloads.ts";
import { interceptFetch } from "./with-streaming.ts";

/**
 * A fetch for the `fetch` option of an SDK's HTTP transport, version 1 or 2. It takes the responses to `resources/stream`
 * aside for `streamResource`: bytes and redirects never reach the SDK.
 *
 * Without an argument, bytes travel over Node's HTTP client with every check on addresses and framing, and all other
 * requests use the built-in fetch. Your own fetch, for example one that uses a proxy, carries everything; the checks on
 * addresses are its job then. With `bytes: "node"` it carries messages only, and bytes travel as they do without one.
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
 * Makes `streamResource` work over a transport that is not HTTP, as {@link withStreaming} does over
 * one that is: the server answers with a download URL, and `side` tells which origin may be asked
 * for it. It is called for each call. Changes `send` of the transport and gives it back.
 */
export function withDownloads<Sending extends SendingTransport>(
  transport: Sending,
  side: () => DownloadSide | Promise<DownloadSide>,
): Sending {
  return interceptSend(transport, side, httpExchange);
}
