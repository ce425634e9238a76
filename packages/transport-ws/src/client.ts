import type { Secret } from "@sluice/core";
import { bearerOf, definedMembers, valueOf } from "@sluice/core/internal";
import { withDownloads } from "@sluice/client/internal";
import { readClientEndpoint } from "./client/client-endpoint.ts";
import { WebSocketClientTransport } from "./client/client-transport.ts";
import type { ClientTransportOptions } from "./client/transport-options.ts";
import { openWebSocket } from "./client/web-socket.ts";

export type { Secret } from "@sluice/core";
export type { ReconnectOptions } from "./client/transport-options.ts";
export { type ClientTransportOptions, type WebSocketClientTransport };
export { isConnectionLost } from "./client/pending-requests.ts";

/** Options of {@link createWebSocketTransport}. */
export interface WebSocketTransportOptions extends ClientTransportOptions {
  /** Gets a ticket from your server, before each connection: browsers can send no token with it. */
  readonly ticket?: Secret;
  /** Bearer token for downloads that are bound to it. It never goes over the WebSocket. */
  readonly token?: Secret;
}

/**
 * A transport for the `Client` of the MCP SDK, version 1 or 2, over the WebSocket that browsers, Deno,
 * Bun and Workers have built in. `streamResource` of `@sluice/client` works over it.
 */
export function createWebSocketTransport(
  url: string | URL,
  options: WebSocketTransportOptions = {},
): WebSocketClientTransport {
  const { ticket, token, downloads } = options;
  const hasSecret = ticket !== undefined || token !== undefined;
  const endpoint = readClientEndpoint(url, { downloads, hasSecret });
  const open = openWebSocket(endpoint.url, async () =>
    ticket === undefined ? undefined : valueOf(ticket),
  );
  return withDownloads(new WebSocketClientTransport(open, options), async () => {
    const authorization = await bearerOf(token);
    return definedMembers({ origin: endpoint.downloads, authorization });
  });
}
