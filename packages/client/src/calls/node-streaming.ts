import type { FetchLike } from "@sluice/core";
import type { Exchange } from "../net/exchange.ts";
import { createFetchExchange } from "../net/fetch-exchange.ts";
import { createHttpExchange } from "../net/http-exchange.ts";
import { divertCalls, type DownloadSide, type SendingTransport } from "./with-downloads.ts";
import { divertStreams } from "./with-streaming.ts";

/** The exchange of this process: its connections are shared by every transfer. */
export const httpExchange: Exchange = createHttpExchange();

/**
 * A fetch for the `fetch` option of an SDK's HTTP transport, version 1 or 2. It takes the answers
 * to `resources/stream` aside for `streamResource`: bytes and redirects never reach the SDK.
 *
 * Without an argument, bytes travel over Node's HTTP client with every check on addresses and
 * framing, and all other requests use the built-in fetch. A fetch of your own, for example one
 * that goes through a proxy, carries everything; the checks on addresses are its job then.
 */
export function withStreaming(fetch?: FetchLike): FetchLike {
  return fetch
    ? divertStreams(fetch, createFetchExchange(fetch))
    : divertStreams(globalThis.fetch, httpExchange);
}

/**
 * Makes `streamResource` work over a transport that is not HTTP, as {@link withStreaming} does over
 * one that is: what the server answers is a download URL, and `side` tells whom to trust with it.
 * It is asked at each call. Changes `send` of the transport and gives it back.
 */
export function withDownloads<Sending extends SendingTransport>(
  transport: Sending,
  side: () => DownloadSide | Promise<DownloadSide>,
): Sending {
  return divertCalls(transport, side, httpExchange);
}
