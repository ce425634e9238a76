import { backgroundClock, isInTime } from "@sluice/core/async";
import type { WebSocket } from "ws";
import { closings, type Closing } from "../messages/closing.ts";
import type { ServerChannel } from "./server-channel.ts";

/** An open connection. */
interface Connection {
  readonly socket: WebSocket;
  readonly channel: ServerChannel;
}

/** How to close. */
export interface CloseOptions {
  /** Say 1012 (service restart) instead of 1001 (going away). Default false. */
  readonly restart?: boolean;
  /** Milliseconds that requests in progress may still take. Default 30,000. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** The open connections of a handler: looks whether they live, and ends them in good order. */
interface Connections {
  readonly size: number;
  add(connection: Connection): void;
  /**
   * Closes each connection as soon as no request of it is unanswered, and all that are left at the
   * deadline. Resolves when there is none any more.
   */
  drain(options: CloseOptions): Promise<void>;
}

/** Makes an empty set. Its one timer runs while there are connections. */
export function createConnections(pingIntervalMs: number): Connections {
  const open = new Set<Connection>();
  const silent = new WeakSet<Connection>();
  let timer: NodeJS.Timeout | undefined;
  const emptied: (() => void)[] = [];

  /** A connection that said nothing since the last ping, not even its answer, is gone. */
  function sweep(): void {
    for (const connection of open) {
      const { socket, channel } = connection;
      if (silent.has(connection) && !channel.isPaused) socket.terminate();
      else {
        silent.add(connection);
        if (socket.readyState === socket.OPEN) socket.ping();
      }
    }
  }

  function add(connection: Connection): void {
    const { socket } = connection;
    const isAlive = (): void => void silent.delete(connection);
    socket.on("pong", isAlive);
    socket.on("message", isAlive);
    socket.on("close", () => {
      open.delete(connection);
      if (open.size > 0) return;
      clearInterval(timer);
      timer = undefined;
      for (const tell of emptied.splice(0)) tell();
    });
    open.add(connection);
    timer ??= setInterval(sweep, pingIntervalMs).unref();
  }

  return {
    get size() {
      return open.size;
    },
    add,
    async drain({ restart = false, deadlineMs = 30_000, signal }) {
      const closing: Closing = restart ? closings.restart : closings.goingAway;
      const empty = new Promise<void>((resolve) => {
        if (open.size === 0) resolve();
        else emptied.push(resolve);
      });
      for (const { channel } of open) {
        if (channel.isIdle) channel.end(closing);
        else channel.onidle = () => channel.end(closing);
      }
      if (!(await isInTime(empty, deadlineMs, signal))) {
        for (const { channel } of open) channel.end(closing);
        // the close frame is on its way; its answer is not waited for
        await new Promise((resolve) => setImmediate(resolve));
        for (const { socket } of open) socket.terminate();
        await empty;
      }
    },
  };
}

/** Calls `expired` once at a time in unix seconds, however far away. Gives the function that ends the watch. */
export function watchExpiry(atSeconds: number | undefined, expired: () => void): () => void {
  if (atSeconds === undefined) return () => {};
  let cancel: (() => void) | undefined;
  function watch(atMs: number): void {
    const leftMs = atMs - Date.now();
    if (leftMs <= 0) return expired();
    cancel = backgroundClock.schedule(() => watch(atMs), Math.min(leftMs, longestLookMs));
  }
  watch(atSeconds * 1_000);
  return () => cancel?.();
}

/** The system's time may be set in between. */
const longestLookMs = 24 * 3_600_000;
