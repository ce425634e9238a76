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
import { serveSessions, sessionsOfUsers } from "./serve-limits.ts";
import { isPrivate, type ServeCommandOptions } from "./serve-options.ts";
import { admitByToken, type Admit, bearerIn, createAuthenticate } from "./listen.ts";
import { endOfTime, type Users } from "./users.ts";
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
  /** Absent if all callers are one user. */
  readonly users: Users | undefined;
}

/** All of a server over HTTP: sessions for clients of MCP 2025-11-25 and older, none for the others. */
export function httpSide(
  { sluice, create, uploads }: Served,
  { name, refusals, options, users }: HttpParts,
): HttpSide {
  const { ws, origin: origins = [], allowAnonymous = false, links = true } = options;
  const { url } = sluice.endpoint;
  const admit = admissionBy(options, users);
  const hasFilesPage = isPrivate(options) && !admit && links;
  const filesPage = hasFilesPage
    ? { name, ...definedMembers({ upload: uploads?.openPage }) }
    : undefined;
  const served = createHandler({
    sluice,
    create,
    origins,
    sessions: users ? sessionsOfUsers : serveSessions,
    ...definedMembers({ filesPage }),
  });
  const handler = uploads?.wrap(served) ?? served;
  const anonymous = allowAnonymous || isLoopbackHost(new URL(url).hostname);
  const sockets = ws ? createSockets(create, url, { admit, anonymous, origins }) : undefined;
  const authenticate = admit && createAuthenticate(admit, refusals);
  return {
    requests: toNodeHandler(handler, definedMembers({ authenticate })),
    ...definedMembers({
      sockets,
      upgrades: sockets && takeUpgrades(sockets, { admit, refusals }),
    }),
    hasFilesPage,
    close: () => served.close(),
  };
}

/** What admits callers; absent if everybody may come in. */
function admissionBy({ token }: ServeCommandOptions, users: Users | undefined): Admit | undefined {
  if (!users) return token === undefined ? undefined : admitByToken(token);
  return async (bearer) => {
    const authInfo = bearer === "" ? undefined : await users.verify(bearer);
    return authInfo && { authInfo };
  };
}

/** Decides which clients may open a WebSocket. */
interface SocketGuard {
  readonly admit: Admit | undefined;
  readonly anonymous: boolean;
  readonly origins: readonly string[];
}

/** The server over WebSocket, beside the endpoint that is given by its HTTP URL. */
function createSockets(
  factory: McpServerFactory,
  endpoint: string,
  { admit, anonymous, origins }: SocketGuard,
): WebSocketHandler {
  async function verifyAccessToken(token: string): Promise<AuthInfo> {
    const admission = await admit?.(token);
    if (!admission) throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown token");
    const { authInfo = { token, clientId: "sluice", scopes: [], expiresAt: endOfTime } } =
      admission;
    return authInfo;
  }
  return createWebSocketHandler(factory, {
    url: endpoint.replace(/^http/, "ws"),
    origins,
    // a user may have many clients
    connections: { perPrincipal: 2_000 },
    bufferedBytes: { perPrincipal: 2 ** 28 },
    ...(admit ? { bearer: { verifier: { verifyAccessToken } } } : { anonymous }),
  });
}

/** Takes the upgrades of a server. */
type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** Upgrades go to the endpoint; those of other paths end with their connection. */
function takeUpgrades(
  sockets: WebSocketHandler,
  { admit, refusals }: Pick<SocketGuard, "admit"> & { readonly refusals: RefusalLog },
): UpgradeListener {
  return (request, socket, head) => {
    const isTaken = sockets.upgrade(request, socket, head);
    if (!isTaken) socket.destroy();
    const bearer = bearerIn(request.headers.authorization);
    const isSocket = request.headers.upgrade?.toLowerCase() === "websocket";
    if (!isTaken || !isSocket || !admit) return;
    const refusal = {
      address: request.socket.remoteAddress,
      kind: "socket",
      hasToken: bearer !== "",
    };
    admit(bearer).then(
      (admission) => admission || refusals.add(refusal),
      () => refusals.add(refusal),
    );
  };
}
