import type { Server } from "node:http";

/** What {@link hardenServer} can be told. */
export interface HardenServerOptions {
  /** Most connections at once. Default 2,000. */
  readonly maxConnections?: number;
}

/**
 * Gives a `node:http` or `node:https` server limits against slow and endless clients, where Node's
 * defaults have none or lenient ones, and gives it back: headers within 15 s, a request body within
 * 30 s, 5 s for an idle connection, 100 requests a connection, 64 headers. How slowly an answer may
 * be taken is up to `toNodeHandler`.
 */
export function hardenServer<Http extends Server>(
  server: Http,
  { maxConnections = 2_000 }: HardenServerOptions = {},
): Http {
  server.headersTimeout = 15_000;
  server.requestTimeout = 30_000;
  server.keepAliveTimeout = 5_000;
  server.maxHeadersCount = 64;
  server.maxRequestsPerSocket = 100;
  server.maxConnections = maxConnections;
  return server;
}
