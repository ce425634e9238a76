import type { Secret } from "@sluice/core";
import { bearerOf, definedMembers, valueOf } from "@sluice/core/internal";
import { withDownloads } from "@sluice/client/internal";
import { readClientEndpoint } from "./client/client-endpoint.ts";
import { WebSocketClientTransport } from "./client/client-transport.ts";
import type { WebSocketTransportOptions } from "./client.ts";
import { openNodeSocket } from "./client/node-socket.ts";

export type { Secret } from "@sluice/core";
export type { ClientTransportOptions, ReconnectOptions } from "./client/transport-options.ts";
export type { WebSocketClientTransport, WebSocketTransportOptions };
export { isConnectionLost } from "./client/pending-requests.ts";

/** Options of {@link createWebSocketTransport}. */
export interface NodeWebSocketTransportOptions extends WebSocketTransportOptions {
  /** Bearer token, for each connection and for downloads that are bound to it. */
  readonly token?: Secret;
  /** Further headers of the upgrade request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Largest message that is taken, in bytes; a larger one closes with 1009. Default 16 MiB. */
  readonly maxMessageBytes?: number;
  /** Milliseconds between pings; a server that says nothing in between is gone. Default 30,000. */
  readonly pingIntervalMs?: number;
}

/**
 * A transport for the `Client` of the MCP SDK, version 1 or 2, over `ws`. `streamResource` of
 * `@sluice/client` works over it.
 */
export function createWebSocketTransport(
  url: string | URL,
  options: NodeWebSocketTransportOptions = {},
): WebSocketClientTransport {
  const {
    token,
    ticket,
    headers,
    downloads,
    maxMessageBytes = 2 ** 24,
    pingIntervalMs = 30_000,
  } = options;
  const hasSecret = ticket !== undefined || token !== undefined;
  const endpoint = readClientEndpoint(url, { downloads, hasSecret });
  const open = openNodeSocket(endpoint.url, {
    maxMessageBytes,
    pingIntervalMs,
    ticket: async () => (ticket === undefined ? undefined : valueOf(ticket)),
    headers: async () => {
      const authorization = await bearerOf(token);
      return definedMembers({ ...headers, authorization });
    },
  });
  const transport = new WebSocketClientTransport(open, options);
  return withDownloads(transport, async () => {
    const authorization = await bearerOf(token);
    const { address } = transport;
    return definedMembers({ origin: endpoint.downloads, authorization, address });
  });
}
