import type { RequestListener, IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { definedMembers, isLoopbackHost } from "@sluice/core/internal";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { type WebSocketHandler, createWebSocketHandler } from "@sluice/transport-ws";
import {
  OAuthError,
  OAuthErrorCode,
  type AuthInfo,
  type McpServerFactory,
} from "@modelcontextprotocol/server";
import type { RefusalLog } from "./refusal-log.ts";
import { serveSessions } from "./serve-limits.ts";
import { isPrivate, type ServeCommandOptions } from "./serve-options.ts";
import { createAuthenticate, tokenCheck, bearerIn } from "./listen.ts";
import type { Served } from "./served.ts";

/** Answers requests and, if wanted, WebSockets. */
export interface HttpSide {
  readonly requests: RequestListener;
  readonly upgrades?: UpgradeListener;
  readonly sockets?: WebSocketHandler;
  /** A browser gets the files at the root. */
  readonly hasFilesPage: boolean;
  /** Ends the sessions. Call it when no request comes any more. */
  close(): Promise<void>;
}

/** Only links, downloads, upload pages and slots, for a server that speaks MCP over another transport. */
export function linksSide({ sluice, uploads }: Served): HttpSide {
  const handler = createHandler({ sluice });
  return {
    requests: toNodeHandler(uploads?.wrap(handler) ?? handler),
    hasFilesPage: false,
    async close() {},
  };
}

/** What a server over HTTP needs besides the served files. */
interface HttpParts {
  /** Name of the files, for people. */
  readonly name: string;
  readonly refusals: RefusalLog;
  readonly options: ServeCommandOptions;
}

/** All of a server over HTTP: sessions for clients of MCP 2025-11-25 and older, none for the others. */
export function httpSide(
  { sluice, create, uploads }: Served,
  { name, refusals, options }: HttpParts,
): HttpSide {
  const { token, ws, origin: origins = [], allowAnonymous = false } = options;
  const { url } = sluice.endpoint;
  const isToken = token === undefined ? undefined : tokenCheck(token);
  const hasFilesPage = isPrivate(options) && !isToken;
  const filesPage = hasFilesPage
    ? { name, ...definedMembers({ upload: uploads?.openPage }) }
    : undefined;
  const served = createHandler({
    sluice,
    create,
    origins,
    sessions: serveSessions,
    ...definedMembers({ filesPage }),
  });
  const handler = uploads?.wrap(served) ?? served;
  const anonymous = allowAnonymous || isLoopbackHost(new URL(url).hostname);
  const sockets = ws ? createSockets(create, url, { isToken, anonymous, origins }) : undefined;
  const authenticate = isToken && createAuthenticate(isToken, refusals);
  return {
    requests: toNodeHandler(handler, definedMembers({ authenticate })),
    ...definedMembers({
      sockets,
      upgrades: sockets && takeUpgrades(sockets, { isToken, refusals }),
    }),
    hasFilesPage,
    close: () => served.close(),
  };
}

/** Decides which clients may open a WebSocket. */
interface SocketGuard {
  /** True for the token of this server; absent when there is none. */
  readonly isToken?: ((token: string) => boolean) | undefined;
  readonly anonymous: boolean;
  readonly origins: readonly string[];
}

/** The server over WebSocket, beside the endpoint that is given by its HTTP URL. */
function createSockets(
  factory: McpServerFactory,
  endpoint: string,
  { isToken, anonymous, origins }: SocketGuard,
): WebSocketHandler {
  async function verifyAccessToken(token: string): Promise<AuthInfo> {
    if (!isToken?.(token)) throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown token");
    return { token, clientId: "sluice", scopes: [], expiresAt: endOfTime };
  }
  return createWebSocketHandler(factory, {
    url: endpoint.replace(/^http/, "ws"),
    origins,
    // every client has the same token
    connections: { perPrincipal: 2_000 },
    bufferedBytes: { perPrincipal: 2 ** 28 },
    ...(isToken ? { bearer: { verifier: { verifyAccessToken } } } : { anonymous }),
  });
}

/** Takes the upgrades of a server. */
type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** Upgrades go to the endpoint; those of other paths end with their connection. */
function takeUpgrades(
  sockets: WebSocketHandler,
  { isToken, refusals }: Pick<SocketGuard, "isToken"> & { readonly refusals: RefusalLog },
): UpgradeListener {
  return (request, socket, head) => {
    const isTaken = sockets.upgrade(request, socket, head);
    if (!isTaken) socket.destroy();
    const bearer = bearerIn(request.headers.authorization);
    const isSocket = request.headers.upgrade?.toLowerCase() === "websocket";
    if (isTaken && isSocket && isToken && !isToken(bearer))
      refusals.add({
        address: request.socket.remoteAddress,
        kind: "socket",
        hasToken: bearer !== "",
      });
  };
}

/** The SDK requires every token to expire: the last possible date, in seconds. */
const endOfTime = 8_640_000_000_000;
