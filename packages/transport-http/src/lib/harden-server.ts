import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { holdContinue, setBodyDeadline } from "./body-deadline.ts";
import { noteAnswers } from "./open-answers.ts";
import { refuseOddFields } from "./refuse-odd-fields.ts";

/** What {@link hardenServer} can be told. */
export interface HardenServerOptions {
  /** Most connections at once. Default 2,000. */
  readonly maxConnections?: number;
}

/**
 * Gives a `node:http` or `node:https` server limits against slow and endless clients, where Node's
 * defaults have none or lenient ones, and gives it back: headers within 15 s, a request body within
 * 30 s, 5 s for an idle connection, 100 requests a connection, 64 header fields. More fields are 431, where Node would drop
 * the rest in silence, and two `Host` fields are 400, before any listener hears of the request. How slowly an answer may
 * be taken is up to `toNodeHandler`, and how slowly an upload may come to its endpoint, which also
 * answers `Expect: 100-continue` when it has made up its mind. `drainServer` ends such a server.
 */
export function hardenServer<Http extends Server>(
  server: Http,
  { maxConnections = 2_000 }: HardenServerOptions = {},
): Http {
  server.headersTimeout = 15_000;
  // Node's own bound would end every upload that takes longer
  server.requestTimeout = 0;
  server.prependListener("request", (req) => setBodyDeadline(req, bodyTimeoutMs));
  server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
    if (req.url?.includes("/uploads/")) holdContinue(req);
    else res.writeContinue();
    server.emit("request", req, res);
  });
  server.keepAliveTimeout = 5_000;
  refuseOddFields(server, maxFields);
  server.maxRequestsPerSocket = 100;
  server.maxConnections = maxConnections;
  noteAnswers(server);
  return server;
}

const bodyTimeoutMs = 30_000;
const maxFields = 64;
