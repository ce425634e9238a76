import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { refuseFields, addressShare } from "@sluice/server/internal";
import { ConcurrencyLimiter, readLimits, type ClientLimits } from "@sluice/core/internal";
import { socketAddress } from "@sluice/server/internal/node";
import { drainBody, holdContinue, setBodyDeadline } from "./node-body.ts";
import { Connection, noteConnections } from "./connection.ts";
import { sendReply } from "../download/send-reply.ts";

/** What {@link hardenServer} can be told. */
export interface HardenServerOptions {
  /**
   * Maximum connections at once. `perProcess` is for this server; those that sent no request, or not all of its body, have at
   * most half of them: the oldest is closed for a new one. Default 2,000. Of one address, more than `perAddress` are closed
   * unanswered. Default: no limit, for behind a proxy all have its address: leave it out there.
   */
  readonly connections?: Omit<ClientLimits, "perPrincipal">;
  /**
   * How long an idle connection is kept, in milliseconds, at most 1 h. Default 5,000. A balancer that keeps connections for the
   * next request must close them first: pass more than its own idle time, or it answers 502 now and then.
   */
  readonly keepAliveTimeoutMs?: number;
}

/**
 * Gives a `node:http` or `node:https` server limits against slow and endless clients, where Node's
 * defaults have none or lenient ones, and gives it back: a TLS handshake within 15 s, headers within 15 s (looked at every 5 s;
 * call it before the server listens), a request body within 30 s (else 408), 5 s for an idle connection, 100 requests a connection, 64
 * header fields. More fields are 431, where Node would drop the rest in silence, and two `Host` fields are 400, before any
 * listener hears of the request. How slowly a response may
 * be taken is up to `toNodeHandler`, and how slowly an upload may come to its endpoint, which also
 * answers `Expect: 100-continue` when it has made up its mind. `drainServer` ends such a server.
 */
export function hardenServer<Http extends Server>(
  server: Http,
  { connections, keepAliveTimeoutMs = 5_000 }: HardenServerOptions = {},
): Http {
  if (typeof (server as Partial<Http> | undefined)?.prependListener !== "function")
    throw new TypeError(
      "hardenServer: the first argument must be a server: createServer(toNodeHandler(handler))",
    );
  const { perAddress, perProcess } = readLimits(
    "hardenServer: connections",
    connections,
    defaultConnections,
  );
  // Node takes 0 for no limit at all
  if (!(keepAliveTimeoutMs >= 1 && keepAliveTimeoutMs <= 3_600_000))
    throw new RangeError("hardenServer: keepAliveTimeoutMs is a number from 1 to 3,600,000");
  server.headersTimeout = headersTimeoutMs;
  // an option of createServer, which its types do not know as a property; Node's default is 30 s
  Object.assign(server, { connectionsCheckingInterval: 5_000 });
  if (server instanceof HttpsServer) boundHandshakes(server, headersTimeoutMs);
  if (perAddress !== undefined) boundConnections(server, perAddress);
  // Node's own bound would end every upload that takes longer
  server.requestTimeout = 0;
  const silence = boundSilence(server, perProcess);
  server.prependListener("request", (req, res) =>
    setBodyDeadline(req, res, {
      timeoutMs: bodyTimeoutMs,
      onWait: () => silence.begin(req.socket),
    }),
  );
  server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
    holdContinue(req, res);
    server.emit("request", req, res);
  });
  server.keepAliveTimeout = keepAliveTimeoutMs;
  refuseOddFields(server, maxFields, (socket) => silence.end(socket));
  server.maxRequestsPerSocket = maxRequests;
  server.maxConnections = perProcess;
  noteConnections(server, maxRequests);
  return server;
}

const defaultConnections: Readonly<Record<"perAddress", number | undefined>> & {
  readonly perProcess: number;
} = { perAddress: undefined, perProcess: 2_000 };
const headersTimeoutMs = 15_000;
const bodyTimeoutMs = 30_000;
const maxFields = 64;
const maxRequests = 100;

/**
 * Answers requests with more than `most` header fields, or with two `Host`, in place of every listener of a server. `onHead` is
 * called with the connection of every request whose header is complete.
 */
function refuseOddFields(server: Server, most: number, onHead: (socket: Socket) => void): void {
  // one more than may come: Node drops what is beyond, and says nothing
  server.maxHeadersCount = most + 1;
  const emit = server.emit.bind(server) as (event: string | symbol, ...args: unknown[]) => boolean;
  server.emit = (event: string | symbol, ...args: unknown[]) => {
    if (!requests.has(event)) return emit(event, ...args);
    const [request, answerer] = args as [IncomingMessage, ServerResponse | Duplex];
    onHead(request.socket);
    const refusal = refuseFields(request.rawHeaders, most);
    if (!refusal) return emit(event, ...args);
    const { status, headers } = refusal;
    if ("writeHead" in answerer) {
      const reply = { ...refusal, headers: [...headers, "Connection", "close"] };
      void sendReply(answerer, reply, { beforeEnd: () => drainBody(request) });
    } else {
      answerer.on("error", () => {});
      // a peer that never closes its side would keep the connection: of an upgrade the server counts no times
      answerer.once("finish", () => answerer.destroy());
      answerer.end(
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      );
    }
    return true;
  };
}

const requests: ReadonlySet<string | symbol> = new Set([
  "request",
  "checkContinue",
  "checkExpectation",
  "upgrade",
]);

/** Has a server close connections of one address beyond `limit`, unanswered. */
function boundConnections(server: Server, limit: number): void {
  const connections = new ConcurrencyLimiter();
  server.prependListener("connection", (socket: Socket) => {
    const share = addressShare(socketAddress(socket));
    const connection = Connection.of(socket);
    // it may come to its server again, with a request that was taken for an upgrade
    if (share === undefined || connection.isCounted) return;
    connection.isCounted = true;
    const release = connections.take(share, limit);
    if (release) socket.once("close", release);
    else socket.destroy();
  });
}

/** The connections that a server waits for. */
interface Silence {
  /** A request begins on a connection. */
  end(socket: Socket): void;
  /** The body of a request is waited for, until the returned function is called. */
  begin(socket: Socket): () => void;
}

/**
 * Has a server close the connection that sent no whole request for longest, when such connections have more than half of all
 * places: clients that only connect, or leave a body out, keep no other out.
 */
function boundSilence(server: Server, maxConnections: number): Silence {
  const maxSilent = Math.max(1, Math.floor(maxConnections / 2));
  const silent = new Map<string, Socket>();
  function begin(socket: Socket): () => void {
    const name = nameOf(socket);
    silent.set(name, socket);
    if (silent.size > maxSilent) {
      const [longest] = silent.values();
      longest!.destroy();
    }
    return () => void silent.delete(name);
  }
  server.prependListener("connection", (socket: Socket) => {
    socket.once("close", begin(socket));
  });
  return { begin, end: (socket) => void silent.delete(nameOf(socket)) };
}

/**
 * Has a server with TLS close a connection whose handshake is not done in time. For all else there are the times of
 * `node:http`, which begin with the connection.
 */
export function boundHandshakes(server: Server, timeoutMs: number): void {
  const shaking = new Map<string, () => void>();
  server.on("connection", (socket: Socket) => {
    const name = nameOf(socket);
    const timer = setTimeout(() => socket.destroy(), timeoutMs).unref();
    const done = (): void => {
      clearTimeout(timer);
      socket.off("close", done);
      if (shaking.get(name) === done) shaking.delete(name);
    };
    shaking.set(name, done);
    socket.once("close", done);
  });
  server.on("secureConnection", (socket: Socket) => shaking.get(nameOf(socket))?.());
}

/** Over TLS it is another object than the one that connected. */
function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
