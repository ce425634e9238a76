import { backgroundClock, isInTime } from "@sluice/core/internal";
import type { WebSocket } from "ws";
import { closings, type Closing } from "../messages/closing.ts";
import type { ServerChannel } from "./server-channel.ts";

interface OpenConnection {
  readonly socket: WebSocket;
  readonly channel: ServerChannel;
}

/** How to close. */
export interface CloseSocketsOptions {
  /** Say 1012 (service restart) instead of 1001 (going away). Default false. */
  readonly restart?: boolean;
  /** Milliseconds that requests in progress may still take. Default 30,000. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/**
 * The open connections of a handler: looks whether they live, and ends them in good order. Its one timer runs while
 * there are connections.
 */
export class Connections {
  readonly #pingIntervalMs: number;
  readonly #open = new Set<OpenConnection>();
  readonly #silent = new Set<OpenConnection>();
  #timer: NodeJS.Timeout | undefined;
  readonly #emptied: (() => void)[] = [];

  /** A connection that said nothing since the last ping, not even its response, is gone. */
  readonly #sweep = (): void => {
    for (const connection of this.#open) {
      const { socket, channel } = connection;
      if (this.#silent.has(connection) && !channel.isPaused) socket.terminate();
      else {
        this.#silent.add(connection);
        if (socket.readyState === socket.OPEN) socket.ping();
      }
    }
  };

  constructor(pingIntervalMs: number) {
    this.#pingIntervalMs = pingIntervalMs;
  }

  get size(): number {
    return this.#open.size;
  }

  add(connection: OpenConnection): void {
    const { socket } = connection;
    const isAlive = (): void => void this.#silent.delete(connection);
    socket.on("pong", isAlive);
    socket.on("message", isAlive);
    socket.on("close", () => {
      this.#open.delete(connection);
      this.#silent.delete(connection);
      if (this.#open.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
      for (const tell of this.#emptied.splice(0)) tell();
    });
    this.#open.add(connection);
    this.#timer ??= setInterval(this.#sweep, this.#pingIntervalMs).unref();
  }

  /**
   * Closes each connection as soon as no request of it is unanswered, and all that are left at the
   * deadline. Resolves when there is none any more.
   */
  async drain({
    restart = false,
    deadlineMs = 30_000,
    signal,
  }: CloseSocketsOptions): Promise<void> {
    const closing: Closing = restart ? closings.restart : closings.goingAway;
    const empty = new Promise<void>((resolve) => {
      if (this.#open.size === 0) resolve();
      else this.#emptied.push(resolve);
    });
    for (const { channel } of this.#open) {
      if (channel.hasNoOpenCall) channel.end(closing);
      else channel.onidle = () => channel.end(closing);
    }
    if (!(await isInTime(empty, deadlineMs, signal))) {
      for (const { channel } of this.#open) channel.end(closing);
      // the close frame is on its way; its response is not waited for
      await new Promise((resolve) => setImmediate(resolve));
      for (const { socket } of this.#open) socket.terminate();
      await empty;
    }
  }
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
