import type { Agent as HttpAgent, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { definedMembers, onAbort, parseRetryAfter, tlsFault } from "@sluice/core/internal";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import {
  createTunnelAgents,
  portOf,
  proxyFor,
  ReaderWatch,
  ruledOptions,
} from "@sluice/core/internal/node";
import { WebSocket } from "ws";
import { FrameSender } from "../messages/frame-sender.ts";
import type { OpenSocket } from "./socket-port.ts";
import { offeredProtocols } from "../messages/closing.ts";

interface NodeSocketOptions {
  readonly ticket: () => Promise<string | undefined>;
  readonly headers: () => Promise<Record<string, string>>;
  readonly maxMessageBytes: number;
  readonly pingIntervalMs: number;
}

/** Opens a socket of `ws`. It follows no redirects, unpacks nothing, and finds out when its server is gone. */
export function openNodeSocket(url: URL, options: NodeSocketOptions): OpenSocket {
  const { ticket, headers, maxMessageBytes, pingIntervalMs } = options;
  return async (events, signal) => {
    signal.throwIfAborted();
    const [fields, protocols] = [await headers(), offeredProtocols(await ticket())];
    signal.throwIfAborted();
    const socket = new WebSocket(url, protocols, {
      headers: fields,
      maxPayload: maxMessageBytes,
      perMessageDeflate: false,
      followRedirects: false,
      ...ruledOptions(url.hostname, portOf(url)),
      agent: tunnelFor(url),
      ...closeTimeout,
    });
    // a server may speak at once, before the opening is reported
    socket.on("message", (data, isBinary) => {
      if (isBinary) events.binary(data as Buffer);
      else events.text((data as Buffer).toString());
    });
    let connection: Socket | undefined;
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        reject(signal.reason as Error);
        socket.terminate();
      };
      const unlisten = onAbort(signal, stop);
      socket.on("upgrade", (response) => {
        connection = response.socket;
      });
      socket.on("unexpected-response", (_request, response) => {
        reject(refusedBy(url, response));
        response.destroy();
        socket.terminate();
      });
      // after the opening, "close" with its code is what counts
      socket.on("error", (cause) => reject(unreachable(url, cause)));
      socket.on("open", () => {
        unlisten();
        resolve();
      });
      socket.on("close", unlisten);
    });
    socket.on("ping", () => {
      // each is answered, and a server that does not read the responses could have them pile up
      if (socket.bufferedAmount > maxMessageBytes) socket.terminate();
    });
    const heartbeat = keepAlive(socket, pingIntervalMs);
    // its pings say only that the server is there
    const watch = new ReaderWatch({
      socket: () => connection,
      // there may be one, and it would not say so
      isProxy: true,
      onLate: () => socket.terminate(),
    });
    const sender = new FrameSender(socket, watch);
    socket.on("close", (code, reason) => {
      clearInterval(heartbeat);
      watch.close();
      events.closed(code, reason.toString());
    });
    return {
      // "close" follows where it fails
      send: (text) => void sender.send(text).catch(() => {}),
      sendBinary: (frame) => sender.send(frame),
      pause: () => socket.pause(),
      resume: () => socket.resume(),
      close: ({ code, reason }) => socket.close(code, reason),
      get bufferedAmount() {
        return socket.bufferedAmount;
      },
      address: connection?.remoteAddress,
    };
  };
}

const tunnels = createTunnelAgents({}, 10_000);

/** Of the connection through the proxy of the environment; undefined if there is none. */
function tunnelFor(url: URL): HttpAgent | undefined {
  if (!proxyFor(url)) return undefined;
  return url.protocol === "wss:" ? tunnels.https : tunnels.http;
}

/** How long a server may take to answer a close; the types of ws do not know it yet. */
const closeTimeout = { closeTimeout: 5_000 };

/** Ends a connection that says nothing between two pings. */
function keepAlive(socket: WebSocket, intervalMs: number): NodeJS.Timeout {
  let isSilent = false;
  const heard = (): void => {
    isSilent = false;
  };
  socket.on("message", heard);
  socket.on("ping", heard);
  socket.on("pong", heard);
  return setInterval(() => {
    if (isSilent && !socket.isPaused) return socket.terminate();
    isSilent = true;
    socket.ping();
  }, intervalMs).unref();
}

const codes: Readonly<Record<number, SluiceErrorCode>> = {
  401: "unauthenticated",
  403: "permission_denied",
  404: "not_found",
  429: "throttled",
};

function refusedBy(url: URL, { statusCode = 0, headers }: IncomingMessage): SluiceError {
  const code = codes[statusCode] ?? (statusCode >= 500 ? "unavailable" : "protocol");
  const retryAfterMs = parseRetryAfter(headers["retry-after"], Date.now());
  return new SluiceError(
    code,
    `ws: ${url.host} refused the connection with ${statusCode}`,
    definedMembers({ retryAfterMs }),
  );
}

function unreachable(url: URL, cause: Error): SluiceError {
  if (SluiceError.is(cause)) return cause;
  // ws has no codes for responses that are not from a WebSocket server
  const isAnswered = !("code" in cause);
  const isCut = "code" in cause && /^(?:HPE_|ECONNRESET$|EPIPE$)/.test(String(cause.code));
  const hint = isCut && url.protocol === "ws:" ? ": is it a wss: address?" : "";
  return isAnswered
    ? new SluiceError("protocol", `ws: ${url.host} does not speak MCP over WebSocket`, { cause })
    : (tlsFault("ws", url, cause) ??
        new SluiceError("unavailable", `ws: ${url.host} could not be reached${hint}`, { cause }));
}
