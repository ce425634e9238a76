import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { refuseFields } from "@sluice/server/transport";

/**
 * Answers requests with more than `most` header fields, or with two `Host`, in place of every listener of a server. `onHead` is
 * called with the connection of every request whose header is complete.
 */
export function refuseOddFields(
  server: Server,
  most: number,
  onHead: (socket: Socket) => void,
): void {
  // one more than may come: Node drops what is beyond, and says nothing
  server.maxHeadersCount = most + 1;
  const emit = server.emit.bind(server) as (event: string | symbol, ...args: unknown[]) => boolean;
  server.emit = (event: string | symbol, ...args: unknown[]) => {
    if (!requests.has(event)) return emit(event, ...args);
    const [request, answerer] = args as [IncomingMessage, ServerResponse | Duplex];
    onHead(request.socket);
    const refusal = refuseFields(request.rawHeaders, most);
    if (!refusal) return emit(event, ...args);
    const { status, headers, text } = refusal;
    if ("writeHead" in answerer) {
      answerer.writeHead(status, [...headers, "Connection", "close"]).end(text);
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
