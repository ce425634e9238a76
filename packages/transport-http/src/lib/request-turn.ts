import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Pipelined requests of one connection that wait. */
const waiting = new WeakMap<Socket, number>();

/** As many as `hardenServer` lets a connection have in all. */
const mostWaiting = 100;

/**
 * Calls `start` when it is the turn of a response on its connection: at once, but for a pipelined request, which waits until
 * the answers before it are sent and takes nothing until then. Never where the connection closes before. One that has too many
 * of them is destroyed.
 */
export function inTurn(res: ServerResponse, socket: Socket, start: () => void): void {
  // Node gives the socket to the response whose turn it is
  if (res.socket) return start();
  const count = (waiting.get(socket) ?? 0) + 1;
  if (count > mostWaiting) return void socket.destroy();
  waiting.set(socket, count);
  res.once("socket", () => {
    waiting.set(socket, waiting.get(socket)! - 1);
    // first what ends with the answer before gives its place back
    setImmediate(() => {
      if (!res.destroyed) start();
    });
  });
}
