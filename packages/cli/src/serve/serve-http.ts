import type { RequestListener } from "node:http";
import { definedMembers, isLoopbackHost } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { composeHandler, createSessions } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/handlers";
import { toNodeHandler } from "@sluice/transport-http/node";
import type { WebSocketHandler } from "@sluice/transport-ws";
import { createBrowseRoutes } from "../browse/browse-routes.ts";
import type { RefusalLog } from "./refusal-log.ts";
import { serveSessions } from "./serve-limits.ts";
import { isPrivate, type ServeOptions } from "./serve-options.ts";
import { createSockets, takeUpgrades, type UpgradeListener } from "./serve-sockets.ts";
import { createAuthenticate, tokenCheck } from "./serve-token.ts";
import type { Served } from "./served.ts";

/** What answers requests and, where it is wanted, WebSockets. */
export interface HttpSide {
  readonly requests: RequestListener;
  readonly upgrades?: UpgradeListener;
  readonly sockets?: WebSocketHandler;
  /** A browser gets a list of files at the root. */
  readonly hasListing: boolean;
  /** Ends the sessions. Call it when no request comes any more. */
  close(): Promise<void>;
}

/** Links, downloads, upload pages and slots alone, for a server that speaks MCP over something else. */
export function createSideHandler({ sluice, uploads }: Served): HttpSide {
  const handler = composeHandler({ sluice });
  return {
    requests: toNodeHandler(uploads?.wrap(handler) ?? handler),
    hasListing: false,
    async close() {},
  };
}

/** What a server over HTTP needs beside what is served. */
interface HttpParts {
  readonly storage: StorageBackend;
  readonly refusals: RefusalLog;
  readonly options: ServeOptions;
}

/** All of a server over HTTP: sessions for clients of MCP 2025-11-25 and older, none for the others. */
export function createHttpSide(
  { sluice, create, uploads }: Served,
  { storage, refusals, options }: HttpParts,
): HttpSide {
  const { token, uri, ws, allowAnonymous = false } = options;
  const { url } = sluice.endpoint;
  const isToken = token === undefined ? undefined : tokenCheck(token);
  const hasListing = isPrivate(options) && !isToken;
  const sessions = createSessions(create, sluice, serveSessions);
  const served = composeHandler({ mcp: sessions, sluice });
  const withUploads = uploads?.wrap(served) ?? served;
  const handler = hasListing
    ? addRoutes(withUploads, createBrowseRoutes({ sluice, storage, uri }))
    : withUploads;
  const anonymous = allowAnonymous || isLoopbackHost(new URL(url).hostname);
  const sockets = ws ? createSockets(create, url, { isToken, anonymous }) : undefined;
  const authenticate = isToken && createAuthenticate(isToken, refusals);
  return {
    requests: toNodeHandler(handler, definedMembers({ authenticate })),
    ...definedMembers({
      sockets,
      upgrades: sockets && takeUpgrades(sockets, { isToken, refusals }),
    }),
    hasListing,
    close: () => sessions.close(),
  };
}
