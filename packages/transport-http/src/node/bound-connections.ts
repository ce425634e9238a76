import type { Server } from "node:http";
import type { Socket } from "node:net";
import { ConcurrencyLimiter } from "@sluice/core/async";
import { addressShare } from "@sluice/server/transport";
import { socketAddress } from "@sluice/server/node";
import { ensureLimit } from "../endpoint/ensure-arguments.ts";
import { Connection } from "./connection.ts";

/** Has a server close connections beyond so many of one address, unanswered. */
export function boundConnections(server: Server, limit: number): void {
  ensureLimit("hardenServer", limit);
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

/**
 * Has a server close the connection that sent no request for longest, when such connections have more than half of all places:
 * clients that only connect keep no other out. The returned function takes the connections that sent one.
 */
export function boundSilence(server: Server, maxConnections: number): (socket: Socket) => void {
  const maxSilent = Math.max(1, Math.floor(maxConnections / 2));
  const silent = new Map<string, Socket>();
  server.prependListener("connection", (socket: Socket) => {
    const name = nameOf(socket);
    silent.set(name, socket);
    socket.once("close", () => silent.delete(name));
    if (silent.size <= maxSilent) return;
    const [longest] = silent.values();
    longest!.destroy();
  });
  return (socket) => void silent.delete(nameOf(socket));
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
