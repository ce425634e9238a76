import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isLoopbackHost } from "@sluice/core/internal";
import { problem, refuseFields, type Reply } from "@sluice/server/internal";

/** The public URL of a WebSocket endpoint, read. */
interface WebSocketEndpoint {
  /** Without a slash at its end, like that of the endpoint over HTTP. */
  readonly path: string;
  /** The same URL with the scheme of HTTP, as browsers send origins. */
  readonly httpUrl: string;
  readonly isLoopback: boolean;
}

/** Reads the option `url`. Throws a `TypeError` unless it is `wss:`, or `ws:` on a loopback address, with one spelling of its path. */
export function readEndpoint(endpoint: string): WebSocketEndpoint {
  const parsed = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isLoopback = parsed !== undefined && isLoopbackHost(parsed.hostname);
  const isSafe = parsed?.protocol === "wss:" || (parsed?.protocol === "ws:" && isLoopback);
  if (!isSafe || parsed.username || parsed.password || parsed.search || parsed.hash)
    throw new TypeError(
      "createWebSocketHandler: url must be wss:, or ws: on a loopback address, without credentials, query and fragment",
    );
  const { pathname } = parsed;
  if (/\/\/|%(?:2[ef]|5c)/i.test(pathname))
    throw new TypeError(
      "createWebSocketHandler: the path of url must have one spelling: no empty segments, and no %2e, %2f or %5c",
    );
  return {
    path: pathname.replace(/\/$/, "") || "/",
    httpUrl: parsed.href.replace(/^ws/, "http"),
    isLoopback,
  };
}

/** Headers that are of the connection, and the one that may hold a ticket. */
const hidden: ReadonlySet<string> = new Set([
  "connection",
  "upgrade",
  "sec-websocket-protocol",
  "sec-websocket-key",
]);

/** The upgrade as the web request that handlers know from HTTP. `signal` aborts when the connection ends. */
export function upgradeRequest(
  headers: IncomingMessage["headers"],
  httpUrl: string,
  signal: AbortSignal,
): Request {
  const fields = new Headers();
  for (const [name, value] of Object.entries(headers))
    if (typeof value === "string" && !hidden.has(name)) fields.set(name, value);
  return new Request(httpUrl, { headers: fields, signal });
}

/** Answers an upgrade request with a refusal and ends its connection. */
export function refuseUpgrade(socket: Duplex, { status, headers, text = "" }: Reply): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, "Connection: close"];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  // a peer that resets the connection must not end the process
  socket.on("error", () => {});
  socket.once("finish", () => socket.destroy());
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`);
}

/** Whether a request asks for a WebSocket and for nothing else. */
export function isWebSocketRequest({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}

/** Requests that were handed back: a server may have several listeners for upgrades. */
const handedBack = new WeakSet<IncomingMessage>();

/**
 * Hands a request that offers another protocol, such as `h2c`, back to its server, which answers it over HTTP/1.1
 * (RFC 9110 §7.8). Node gives a listener for upgrades all of them, and leaves the body unread, so the request goes
 * through the parser of the server once more, without the offer.
 */
export function handBack(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  if (handedBack.has(request)) return;
  handedBack.add(request);
  const { server } = request.socket as Socket & { readonly server?: Server };
  // at its bound Node drops fields, and a body without its length would be read as the next request
  const maxFields = (server?.maxHeadersCount || nodeMaxFields) - 1;
  const refusal = refuseFields(request.rawHeaders, maxFields);
  // a Node that has read the body already leaves nothing to parse again
  if (refusal || !server || !request.complete)
    return refuseUpgrade(socket, refusal ?? problem(400));
  whenFree(request.socket, () => {
    // the response before may have begun to count the idle time
    request.socket.setTimeout(server.timeout);
    socket.unshift(Buffer.concat([Buffer.from(headOf(request), "latin1"), head]));
    server.emit("encrypted" in request.socket ? "secureConnection" : "connection", socket);
  });
}

/** What Node takes by default. */
const nodeMaxFields = 1_000;

/**
 * Calls `then` after the responses to the client's earlier requests, and never where the connection ends with them.
 * Node has taken off the socket the listeners that those responses still need.
 */
export function whenFree(socket: Socket, then: () => void): void {
  // a peer that resets the connection must not end the process
  socket.off("error", ignore).on("error", ignore);
  if (socket.destroyed || socket.writableEnded) return;
  const { _httpMessage: answer } = socket as { _httpMessage?: NodeJS.EventEmitter | null };
  if (!answer) return then();
  const onDrain = (): void => void answer.emit("drain");
  socket.on("drain", onDrain);
  answer.once("close", () => {
    socket.off("drain", onDrain);
    whenFree(socket, then);
  });
}

const ignore = (): void => {};

/** Start line and fields without the offer. */
function headOf({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at]!, rawHeaders[at + 1]!];
    const isConnection = name.toLowerCase() === "connection";
    const field = isConnection ? withoutOffer(value) : value;
    if (offers.has(name.toLowerCase()) || (isConnection && field === "")) continue;
    lines.push(`${name}: ${field}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

const offers: ReadonlySet<string> = new Set(["upgrade", "http2-settings"]);

/** The options of a `Connection` field that are left. */
function withoutOffer(value: string): string {
  const options = value.split(",").map((option) => option.trim());
  return options.filter((option) => !offers.has(option.toLowerCase())).join(", ");
}
