import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as HttpsServer } from "node:https";
import { holdContinue, setBodyDeadline } from "./node-body.ts";
import { boundConnections, boundHandshakes, boundSilence } from "./bound-connections.ts";
import { noteConnections } from "./connection.ts";
import { refuseOddFields } from "./refuse-odd-fields.ts";

/** What {@link hardenServer} can be told. */
export interface HardenServerOptions {
  /**
   * Most connections at once. Default 2,000. Those that sent no request have at most half of them: the oldest is closed for a
   * new one.
   */
  readonly maxConnections?: number;
  /**
   * Most connections of one address at once; more are closed unanswered. An IPv6 address counts with its /64. Default: no limit,
   * for behind a proxy all have its address: leave it out there.
   */
  readonly maxConnectionsPerAddress?: number;
  /**
   * How long an idle connection is kept, in milliseconds, at most 1 h. Default 5,000. A balancer that keeps connections for the
   * next request must close them first: pass more than its own idle time, or it answers 502 now and then.
   */
  readonly keepAliveTimeoutMs?: number;
}

/**
 * Gives a `node:http` or `node:https` server limits against slow and endless clients, where Node's
 * defaults have none or lenient ones, and gives it back: a TLS handshake within 15 s, headers within 15 s (looked at every 5 s;
 * call it before the server listens), a request body within 30 s, 5 s for an idle connection, 100 requests a connection, 64
 * header fields. More fields are 431, where Node would drop the rest in silence, and two `Host` fields are 400, before any
 * listener hears of the request. How slowly an answer may
 * be taken is up to `toNodeHandler`, and how slowly an upload may come to its endpoint, which also
 * answers `Expect: 100-continue` when it has made up its mind. `drainServer` ends such a server.
 */
export function hardenServer<Http extends Server>(
  server: Http,
  {
    maxConnections = 2_000,
    maxConnectionsPerAddress,
    keepAliveTimeoutMs = 5_000,
  }: HardenServerOptions = {},
): Http {
  if (typeof (server as Partial<Http> | undefined)?.prependListener !== "function")
    throw new TypeError(
      "hardenServer: the first argument must be a server: createServer(toNodeHandler(handler))",
    );
  // Node takes 0 for no limit at all
  if (!(keepAliveTimeoutMs >= 1 && keepAliveTimeoutMs <= 3_600_000))
    throw new RangeError("hardenServer: keepAliveTimeoutMs is a number from 1 to 3,600,000");
  server.headersTimeout = headersTimeoutMs;
  // an option of createServer, which its types do not know as a property; Node's default is 30 s
  Object.assign(server, { connectionsCheckingInterval: 5_000 });
  if (server instanceof HttpsServer) boundHandshakes(server, headersTimeoutMs);
  if (maxConnectionsPerAddress !== undefined) boundConnections(server, maxConnectionsPerAddress);
  // Node's own bound would end every upload that takes longer
  server.requestTimeout = 0;
  server.prependListener("request", (req) => setBodyDeadline(req, bodyTimeoutMs));
  server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
    holdContinue(req, res);
    server.emit("request", req, res);
  });
  server.keepAliveTimeout = keepAliveTimeoutMs;
  refuseOddFields(server, maxFields, boundSilence(server, maxConnections));
  server.maxRequestsPerSocket = maxRequests;
  server.maxConnections = maxConnections;
  noteConnections(server, maxRequests);
  return server;
}

const headersTimeoutMs = 15_000;
const bodyTimeoutMs = 30_000;
const maxFields = 64;
const maxRequests = 100;
