import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { isLoopbackHost } from "@sluice/core/internal";
import type { Reply } from "@sluice/server/internal";

/** The public URL of a WebSocket endpoint, read. */
interface WebSocketEndpoint {
  /** Without a slash at its end, like that of the endpoint over HTTP. */
  readonly path: string;
  /** The same URL with the scheme of HTTP, as browsers send origins. */
  readonly httpUrl: string;
  readonly isLoopback: boolean;
}

/** Reads `url`. Throws a `TypeError` unless it is `wss:`, or `ws:` on a loopback address, with one spelling of its path. */
export function readEndpoint(url: string): WebSocketEndpoint {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
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
  url: string,
  signal: AbortSignal,
): Request {
  const fields = new Headers();
  for (const [name, value] of Object.entries(headers))
    if (typeof value === "string" && !hidden.has(name)) fields.set(name, value);
  return new Request(url, { headers: fields, signal });
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
