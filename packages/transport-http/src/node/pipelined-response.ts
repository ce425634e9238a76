import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Connection } from "./connection.ts";

/** As many as `hardenServer` lets a connection have in all. */
const mostWaiting = 100;
/** More than a hundred requests of a usual size. */
const mostBytes = 2 ** 18;

/**
 * Calls `start` when it is the turn of a response on its connection: at once, but for a pipelined request, which waits until
 * the answers before it are sent and takes nothing until then. Never where the connection closes before. One that has too many
 * of them, or more than 256 KiB behind the oldest, is destroyed.
 */
export function startInOrder(res: ServerResponse, socket: Socket, start: () => void): void {
  // Node gives the socket to the response whose turn it is
  if (res.socket) return start();
  const { waiting: marks } = Connection.of(socket);
  const { bytesRead } = socket;
  if (marks.length >= mostWaiting || bytesRead - (marks[0] ?? bytesRead) > mostBytes)
    return void socket.destroy();
  marks.push(bytesRead);
  res.once("socket", () => {
    marks.shift();
    // first what ends with the answer before gives its place back
    setImmediate(() => {
      if (!res.destroyed) start();
    });
  });
}
