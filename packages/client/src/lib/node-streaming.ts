import type { Exchange } from "./exchange.ts";
import { createFetchExchange, type FetchLike } from "./fetch-exchange.ts";
import { createHttpExchange } from "./http-exchange.ts";
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
