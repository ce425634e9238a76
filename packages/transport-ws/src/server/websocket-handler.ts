import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { principalTag, resourceTag, SluiceError } from "@sluice/core";
import { backgroundClock, readLimits, within, type Deadline } from "@sluice/core/internal";
import type { Caller, Sluice } from "@sluice/server";
import {
  addressShare,
  createByteAccount,
  createFailedRedemptions,
  createOriginGate,
  noteRequest,
  problem,
  refuseFields,
  type Reply,
} from "@sluice/server/internal";
import { createClientAddress } from "@sluice/server/internal/node";
import type { AuthInfo, McpServerFactory } from "@modelcontextprotocol/server";
import { WebSocketServer, type WebSocket } from "ws";
import { createAuthenticate, type Authentication } from "./authenticate.ts";
import { closings, readProtocols, SUBPROTOCOL } from "../messages/closing.ts";
import { Connections, watchExpiry, type CloseSocketsOptions } from "./connections.ts";
import {
  ensureRate,
  connectionLimiter,
  type ConnectionLimits,
  type ConnectionShare,
  type ConnectionLease,
} from "./connection-limits.ts";
import {
  handBack,
  isWebSocketRequest,
  readEndpoint,
  refuseUpgrade,
  upgradeRequest,
  whenFree,
} from "./upgrade-request.ts";
import { serveChannel } from "./serve-channel.ts";
import { ServerChannel } from "./server-channel.ts";
import type { WebSocketHandlerOptions } from "./websocket-options.ts";

/** MCP over WebSocket for any `node:http` server. */
export interface WebSocketHandler {
  readonly connections: number;
  /**
   * Takes an upgrade request: give it the arguments of the server's `upgrade` event. False when the path is not
   * that of the endpoint; the socket is then still yours. A request that offers another protocol, such as `h2c`, goes
   * back to its server, which answers it like any other. Either waits for the responses to earlier requests.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /**
   * Refuses new connections with 503, lets requests in progress end, and closes with 1001 or 1012.
   * Resolves when the last connection is gone.
   */
  close(options?: CloseSocketsOptions): Promise<void>;
}

/**
 * Serves MCP over WebSocket to legacy and modern clients: each connection gets a server of the factory when its
 * first message shows the protocol revision. Order at the upgrade: path → Host and Origin → draining → subprotocol →
 * room → credentials → room for the principal. Throws a `TypeError` or `RangeError` for options that cannot work.
 */
export function createWebSocketHandler(
  factory: McpServerFactory,
  options: WebSocketHandlerOptions,
): WebSocketHandler {
  if (typeof factory !== "function" || typeof options !== "object")
    throw new TypeError(
      "createWebSocketHandler: pass a function that makes a server, and options: (() => sluice.attach(new McpServer(…)), { url })",
    );
  const {
    principal: resolve,
    maxMessageBytes = 2 ** 18,
    maxBufferedBytes = 2 ** 24,
    sluice,
    messageRate = { perSecond: 100, burst: 200 },
    pingIntervalMs = 30_000,
    binary,
    // oxlint-disable-next-line no-console -- the documented default
    onError = (error) => console.error("sluice:", error),
  } = options;
  ensureRate(messageRate);
  const endpoint = readEndpoint(options.url);
  const path = options.path ?? endpoint.path;
  const gate = createOriginGate(endpoint.httpUrl, options);
  const failures = createFailedRedemptions(options.failedTickets, onError);
  const authenticate = createAuthenticate(options, { ...endpoint, failures, onError });
  const connectionLimits = readLimits(
    `${who}: connections`,
    options.connections,
    defaultConnections,
  );
  const takeLease = connectionLimiter(connectionLimits);
  const { proxyHops = 0, addressOf } = hostOf(sluice) ?? {};
  const readAddress = createClientAddress(proxyHops);
  const byteLimits = readLimits(`${who}: bufferedBytes`, options.bufferedBytes, defaultBytes);
  const unsentBytes = createByteAccount(byteLimits.perProcess);
  const connections = new Connections(pingIntervalMs);
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: maxMessageBytes,
    handleProtocols: () => SUBPROTOCOL,
    ...closeTimeout,
  });
  const arriving = new Set<Duplex>();
  let draining = false;

  /** What is wrong before the client is authenticated. */
  function refuse(request: IncomingMessage): Reply | undefined {
    const refusal =
      refuseFields(request.rawHeaders) ??
      gate.refuse({ header: (name) => headerOf(request, name) });
    if (refusal) return refusal;
    if (draining) return busy(503);
    const { isMcp } = readProtocols(request.headers["sec-websocket-protocol"]);
    // RFC 9110 §7.8: nothing is upgraded from HTTP/1.0
    return isMcp && request.httpVersion !== "1.0" ? undefined : problem(400);
  }

  async function admit(
    request: IncomingMessage,
    lease: ConnectionLease,
  ): Promise<Authentication & { readonly share?: ConnectionShare | undefined }> {
    const { authorization } = request.headers;
    const { ticket } = readProtocols(request.headers["sec-websocket-protocol"]);
    const address = clientAddress(request);
    const caller = await authenticate({ authorization, ticket, address });
    if (caller.refusal) return caller;
    const share = await shareOf(request, caller.authInfo);
    return lease.claim(share) ? { ...caller, share } : { refusal: busy(429) };
  }

  async function shareOf(
    request: IncomingMessage,
    authInfo: AuthInfo | undefined,
  ): Promise<ConnectionShare | undefined> {
    const principal = await resolve?.(callerOf(request, authInfo));
    if (principal) return { name: principalTag(principal), isPrincipal: true };
    if (authInfo) return { name: resourceTag(authInfo.token), isPrincipal: true };
    if (connectionLimits.perAddress === undefined) return undefined;
    const name = addressShare(clientAddress(request));
    return name === undefined ? undefined : { name, isPrincipal: false };
  }

  function callerOf(request: IncomingMessage, authInfo?: AuthInfo): Caller {
    return { address: readAddress(request), authInfo, header: (name) => headerOf(request, name) };
  }

  /** The address that limits count for. */
  function clientAddress(request: IncomingMessage): string | undefined {
    const caller = callerOf(request);
    return addressOf ? addressOf(caller) : caller.address;
  }

  async function take(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    lease: ConnectionLease,
  ): Promise<void> {
    const admitted = await within(admit(request, lease), handshake).catch((error: unknown) => {
      onError(error);
      return { refusal: problem(500), authInfo: undefined, share: undefined };
    });
    // gone, or refused because the handler closes
    if (socket.destroyed || socket.writableEnded) return;
    if (admitted.refusal) return refuseUpgrade(socket, admitted.refusal);
    server.handleUpgrade(request, socket, head, (webSocket) =>
      connect(webSocket, request, admitted),
    );
  }

  function connect(
    socket: WebSocket,
    request: IncomingMessage,
    { authInfo, share }: Awaited<ReturnType<typeof admit>>,
  ): void {
    const unsent = unsentBytes.open(
      share && {
        name: share.name,
        limit: share.isPrincipal ? byteLimits.perPrincipal : byteLimits.perAddress,
      },
    );
    const limits = { maxBufferedBytes, unsent, messageRate, binary };
    const { headers } = request;
    const address = readAddress(request);
    const channel = new ServerChannel(socket, request, limits);
    const controller = new AbortController();
    const stopWatching = watchExpiry(authInfo?.expiresAt, () => channel.end(closings.expired));
    // frames against the protocol; ws has closed with the right code by now
    socket.on("error", () => {});
    socket.on("close", () => {
      stopWatching();
      controller.abort();
    });
    connections.add({ socket, channel });
    serveChannel(channel, factory, {
      authInfo,
      request() {
        const upgraded = upgradeRequest(headers, endpoint.httpUrl, controller.signal);
        noteRequest(upgraded, { address, sentListener: channel.answers, isLasting: true });
        return upgraded;
      },
      onError,
    });
  }

  function open(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // without a listener an error before ws takes the socket over would end the process
    socket.on("error", () => {});
    const refusal = refuse(request);
    const lease = refusal ? undefined : takeLease();
    if (!lease) return refuseUpgrade(socket, refusal ?? busy(503));
    socket.once("close", () => lease.release());
    arriving.add(socket);
    take(request, socket, head, lease)
      .catch((error: unknown) => {
        onError(error);
        socket.destroy();
      })
      .finally(() => arriving.delete(socket));
  }

  return {
    get connections() {
      return connections.size;
    },
    upgrade(request, socket, head) {
      if (!isWebSocketRequest(request)) {
        handBack(request, socket, head);
        return true;
      }
      const [target] = (request.url ?? "/").split("?", 1);
      if (target !== path) return false;
      // behind a request that is not answered yet, 101 would stand before its response
      whenFree(request.socket, () => open(request, socket, head));
      return true;
    },
    close(closeOptions = {}) {
      draining = true;
      for (const socket of arriving) refuseUpgrade(socket, busy(503));
      arriving.clear();
      return connections.drain(closeOptions);
    },
  };
}

const who = "createWebSocketHandler";

const defaultConnections: ConnectionLimits = {
  perPrincipal: 16,
  perAddress: undefined,
  perProcess: 2_000,
};
const defaultBytes = { perPrincipal: 2 ** 25, perAddress: 2 ** 25, perProcess: 2 ** 28 };

/** Throws a `TypeError` unless it is a Sluice, if there is one. */
function hostOf(sluice: Pick<Sluice, "host"> | undefined): Sluice["host"] | undefined {
  if (sluice && typeof (sluice as Partial<Sluice>).host?.addressOf !== "function")
    throw new TypeError(`${who}: sluice must be what createSluice gave`);
  return sluice?.host;
}

const handshakeMs = 10_000;
const handshake: Deadline = {
  timeoutMs: handshakeMs,
  expired: () => new SluiceError("timeout", `ws: not done within ${handshakeMs} ms`),
  clock: backgroundClock,
};
/** How long a peer may take to answer a close; the types of ws do not know it yet. */
const closeTimeout = { closeTimeout: 5_000 };

function busy(status: 429 | 503): Reply {
  return problem(status, { headers: ["Retry-After", "1"] });
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : undefined;
}
