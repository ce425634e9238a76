import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ConcurrencyLimiter } from "@sluice/core/async";
import { addressShare } from "@sluice/server/transport";
import { socketAddress } from "@sluice/server/node";
import { ensureLimit } from "../endpoint/ensure-arguments.ts";

/** Has a server close connections beyond so many of one address, unanswered. */
export function boundConnections(server: Server, limit: number): void {
  ensureLimit("hardenServer", limit);
  const connections = new ConcurrencyLimiter();
  // a connection may come to its server again, with a request that was taken for an upgrade
  const counted = new WeakSet<Socket>();
  server.prependListener("connection", (socket: Socket) => {
    const share = addressShare(socketAddress(socket));
    if (share === undefined || counted.has(socket)) return;
    counted.add(socket);
    const release = connections.take(share, limit);
    if (release) socket.once("close", release);
    else socket.destroy();
  });
}

/**
 * Has a server close a connection behind the answer to so many requests. Node counts anew where a connection comes to its
 * server again.
 */
export function boundRequests(server: Server, limit: number): void {
  const counts = new WeakMap<Socket, number>();
  server.prependListener("request", ({ socket }: IncomingMessage, answer: ServerResponse) => {
    const count = (counts.get(socket) ?? 0) + 1;
    counts.set(socket, count);
    if (count >= limit) answer.shouldKeepAlive = false;
  });
}

/** The connections that a server waits for. */
export interface Silence {
  /** A request begins on a connection. */
  end(socket: Socket): void;
  /** The body of a request is waited for, until the returned function is called. */
  begin(socket: Socket): () => void;
}

/**
 * Has a server close the connection that sent no whole request for longest, when such connections have more than half of all
 * places: clients that only connect, or leave a body out, keep no other out.
 */
export function boundSilence(server: Server, maxConnections: number): Silence {
  const maxSilent = Math.max(1, Math.floor(maxConnections / 2));
  const silent = new Map<string, Socket>();
  function begin(socket: Socket): () => void {
    const name = nameOf(socket);
    silent.set(name, socket);
    if (silent.size > maxSilent) {
      const [longest] = silent.values();
      longest!.destroy();
    }
    return () => void silent.delete(name);
  }
  server.prependListener("connection", (socket: Socket) => {
    socket.once("close", begin(socket));
  });
  return { begin, end: (socket) => void silent.delete(nameOf(socket)) };
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
