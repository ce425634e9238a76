import { setMaxListeners } from "node:events";
import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** A connection of `node:http`: what its requests have in common. */
export class Connection {
  /** Responses that have not closed yet. Filled only for servers of `noteConnections`. */
  readonly answers: Set<ServerResponse> = new Set();
  /** For each pipelined request that waits, the oldest first: bytes that had come when it did. */
  readonly waiting: number[] = [];
  /** Requests that came on it, where its server keeps account of them. */
  requests = 0;
  /** It counts among the connections of its address. */
  isCounted = false;
  /** A request on it was refused because its server drains. */
  isRefused = false;
  #signal: AbortSignal | undefined;

  static of(socket: Socket): Connection {
    let connection = connections.get(socket);
    if (!connection) connections.set(socket, (connection = new Connection()));
    return connection;
  }

  /**
   * Aborts when the connection closes, whose socket this is. Shared by all requests: a signal for each would cost more
   * than the rest of a small download.
   */
  signalOf(socket: Socket): AbortSignal {
    if (!this.#signal) {
      const closing = new AbortController();
      socket.once("close", () => closing.abort());
      this.#signal = closing.signal;
      // as many as there are pipelined requests
      setMaxListeners(0, closing.signal);
    }
    return this.#signal;
  }
}

const connections = new WeakMap<Socket, Connection>();

const servers = new WeakMap<Server, ReadonlyMap<Socket, Connection>>();

/**
 * Keeps account of the connections of a server and of the responses that they are owed, and closes a connection after the response
 * to its `maxRequests`-th request. Node counts anew when a connection comes to its server again.
 */
export function noteConnections(server: Server, maxRequests: number): void {
  if (servers.has(server)) return;
  const open = new Map<Socket, Connection>();
  servers.set(server, open);

  function note(socket: Socket): Connection {
    const noted = open.get(socket);
    if (noted) return noted;
    const connection = Connection.of(socket);
    open.set(socket, connection);
    // a response that is queued behind another one is not told that its connection is gone
    socket.once("close", () => open.delete(socket));
    return connection;
  }

  server.on("connection", note);
  // over TLS it is another socket than the one that connected
  server.on("secureConnection", note);
  server.prependListener("request", ({ socket }, answer) => {
    const connection = note(socket);
    const { answers } = connection;
    answers.add(answer);
    answer.once("close", () => answers.delete(answer));
    connection.requests += 1;
    if (connection.requests >= maxRequests) answer.shouldKeepAlive = false;
  });
}

/** The open connections of a server; `undefined` for one that keeps no account of them. */
export function connectionsOf(server: Server): ReadonlyMap<Socket, Connection> | undefined {
  return servers.get(server);
}

/** `hardenServer` allows a connection this many requests in all. */
const maxWaiting = 100;
/** More than a hundred requests of a usual size. */
const maxBytesBehind = 2 ** 18;

/**
 * Calls `start` when it is this response's turn. A pipelined request waits, holding nothing, until the responses before
 * it are sent; if the connection closes first, `start` is never called. A connection with too many waiting requests, or
 * more than 256 KiB after the oldest, is destroyed.
 */
export function startInOrder(res: ServerResponse, socket: Socket, start: () => void): void {
  // Node gives the socket to the response whose turn it is
  if (res.socket) return start();
  const { waiting: marks } = Connection.of(socket);
  const { bytesRead } = socket;
  if (marks.length >= maxWaiting || bytesRead - (marks[0] ?? bytesRead) > maxBytesBehind)
    return void socket.destroy();
  marks.push(bytesRead);
  res.once("socket", () => {
    marks.shift();
    // in the next turn, so that listeners of the previous response release its permits first
    setImmediate(() => {
      if (!res.destroyed) start();
    });
  });
}
