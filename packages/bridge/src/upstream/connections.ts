import type { LookupFunction } from "node:net";
import type { ConnectionOptions } from "node:tls";
import {
  hasServerRules,
  openTunnel,
  portOf,
  proxyFor,
  ruledOptions,
} from "@sluice/core/internal/node";
import { Agent, buildConnector, type Dispatcher, fetch as undiciFetch } from "undici";
import type { FetchLike } from "@sluice/core";

/** How connections to a server are opened. */
interface ConnectionRules {
  /** Longest wait for one, in milliseconds. */
  readonly connectMs: number;
  /** Longest wait for the headers of a response, in milliseconds. */
  readonly headersMs: number;
  readonly lookup?: LookupFunction | undefined;
  readonly tls?: ConnectionOptions | undefined;
}

/** A call may work for long before its first byte, and a stream of events may be silent for long. */
const silenceMs: number = 24 * 3_600_000;

/**
 * Connections that go through the proxy of the environment where there is one. A connection that fails ends the requests
 * that wait for it: none is tried again here.
 */
export function createConnections({
  connectMs,
  headersMs,
  lookup,
  tls = {},
}: ConnectionRules): Dispatcher {
  const options = { ...(tls as buildConnector.BuildOptions), timeout: connectMs, lookup };
  const plainConnector = buildConnector(options);
  /** What undici makes has the same options for all hosts. */
  const connectorTo = (url: URL): buildConnector.connector =>
    hasServerRules()
      ? buildConnector({ ...options, ...ruledOptions(url.hostname, portOf(url)) })
      : plainConnector;
  const connect: buildConnector.connector = (target, connected) => {
    // not the name alone: it has lost its brackets
    const url = new URL(`${target.protocol}//${target.host ?? target.hostname}`);
    try {
      const proxy = proxyFor(url);
      if (!proxy) return connectorTo(url)(target, connected);
      openTunnel(proxy, { url, tls }, connectMs).then(
        (socket) => connected(null, socket),
        (error: Error) => connected(error, null),
      );
    } catch (error) {
      connected(error as Error, null);
    }
  };
  return new Agent({ connect, headersTimeout: headersMs, bodyTimeout: silenceMs });
}

const connectMs = 10_000;

let connections: Dispatcher | undefined;

/**
 * A `fetch` for messages of a server, through the proxy of the environment where there is one. Its connections are those of
 * the process: a bridge with many hosts keeps them from session to session.
 */
export const serverFetch: FetchLike = (input, init) => {
  connections ??= createConnections({ connectMs, headersMs: silenceMs });
  // its types are those of the package, not of the platform
  return undiciFetch(input, { ...(init as object), dispatcher: connections });
};
