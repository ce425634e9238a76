import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { problem, refuseFields } from "@sluice/server/internal";
import { refuseUpgrade } from "./upgrade-request.ts";

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
