import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Reply } from "@sluice/server/transport";

/** Answers an upgrade request with a refusal and ends its connection. */
export function refuseUpgrade(socket: Duplex, { status, headers, text = "" }: Reply): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, "Connection: close"];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  // a peer that resets the connection must not end the process
  socket.on("error", () => {});
  socket.once("finish", () => socket.destroy());
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`);
}
