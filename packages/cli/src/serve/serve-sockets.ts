import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import {
  OAuthError,
  OAuthErrorCode,
  type AuthInfo,
  type McpServerFactory,
} from "@modelcontextprotocol/server";
import { createWebSocketHandler, type WebSocketHandler } from "@sluice/transport-ws";
import type { RefusalLog } from "./refusal-log.ts";
import { bearerIn } from "./serve-token.ts";

/** Decides which clients may open a WebSocket. */
export interface SocketGuard {
  /** True for the token of this server; absent when there is none. */
  readonly isToken?: ((token: string) => boolean) | undefined;
  readonly anonymous: boolean;
}

/** The server over WebSocket, beside the endpoint that is given by its HTTP URL. */
export function createSockets(
  factory: McpServerFactory,
  endpoint: string,
  { isToken, anonymous }: SocketGuard,
): WebSocketHandler {
  async function verifyAccessToken(token: string): Promise<AuthInfo> {
    if (!isToken?.(token)) throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown token");
    return { token, clientId: "sluice", scopes: [], expiresAt: endOfTime };
  }
  return createWebSocketHandler(factory, {
    url: endpoint.replace(/^http/, "ws"),
    // every client has the same token
    maxConnectionsPerPrincipal: 2_000,
    maxBufferedBytesPerPrincipal: 2 ** 28,
    ...(isToken ? { bearer: { verifier: { verifyAccessToken } } } : { anonymous }),
  });
}

/** Takes the upgrades of a server. */
export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** Upgrades go to the endpoint; those of other paths end with their connection. */
export function takeUpgrades(
  sockets: WebSocketHandler,
  { isToken, refusals }: Pick<SocketGuard, "isToken"> & { readonly refusals: RefusalLog },
): UpgradeListener {
  return (request, socket, head) => {
    const isTaken = sockets.upgrade(request, socket, head);
    if (!isTaken) socket.destroy();
    const given = bearerIn(request.headers.authorization);
    const isSocket = request.headers.upgrade?.toLowerCase() === "websocket";
    if (isTaken && isSocket && isToken && !isToken(given))
      refusals.add({
        address: request.socket.remoteAddress,
        kind: "socket",
        hasToken: given !== "",
      });
  };
}

/** The SDK wants an end of every token: the last one that dates have, in seconds. */
const endOfTime = 8_640_000_000_000;
