import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import { backgroundClock } from "../async/clock.ts";
import { acceptedBytes, readQueues, type ReadQueues } from "./kernel-queues.ts";

/** How slowly a reader may take what is written to it. */
export interface ReaderPace {
  /** Longest time in which it takes nothing, in milliseconds. Default 45,000. */
  readonly graceMs?: number | undefined;
  /** Minimum bytes that it takes per second. Default 4096. */
  readonly minBytesPerSecond?: number | undefined;
}

/** Options of a {@link ReaderWatch}. */
export interface ReaderWatchOptions extends ReaderPace {
  /** The connection; `undefined` while it is not this reader's turn. */
  readonly socket: () => Socket | undefined;
  /** Whether the peer forwards the bytes, and may buffer them. */
  readonly isProxy?: boolean;
  /** Called once for a reader that is too slow, or gone. */
  readonly onLate: () => void;
}

/**
 * Maximum bytes that a reader may still have to read when the local system reports them taken. They
 * lie in buffers that report no reads until a large part of them is empty: those of both systems,
 * and of a proxy.
 */
const hiddenBytes = 6 * 1024 * 1024;

/**
 * Watches whether the reader of a socket takes the bytes that wait for it. A reader has `graceMs`, plus a second for
 * every 4 KiB it takes. Bytes accepted by the system prove nothing: it accepts megabytes at once, then none until a
 * slow reader has taken some. For a process on this machine the system reports what was read, and no credit above
 * `graceMs` accrues; for any other peer it accrues up to the time needed to read {@link hiddenBytes}. A peer whose
 * system no longer answers gets no more than `graceMs`.
 *
 * Its one timer runs while something waits. Time in which this process did not run is not the reader's.
 */
export class ReaderWatch {
  readonly #options: ReaderWatchOptions;
  readonly #read: ReadQueues;
  readonly #graceMs: number;
  readonly #bytesPerMs: number;
  readonly #lookMs: number;
  #leftMs: number;
  /** How long the peer's system has sent nothing at all, in milliseconds. */
  #silentMs = 0;
  #countedTo = backgroundClock.now();
  #accepted = 0;
  /**
   * Maximum bytes that it was seen to have taken. Those of earlier answers count: it may have to
   * read them still.
   */
  #taken = 0;
  #measure: "read" | "acknowledged" | "accepted" | undefined;
  #cancelLook: (() => void) | undefined;
  #isClosed = false;

  constructor(options: ReaderWatchOptions, read: ReadQueues = readQueues) {
    const { graceMs = 45_000, minBytesPerSecond = 4_096 } = options;
    this.#options = options;
    this.#read = read;
    this.#graceMs = graceMs;
    this.#bytesPerMs = minBytesPerSecond / 1_000;
    this.#lookMs = Math.max(1, graceMs / looks);
    this.#leftMs = graceMs;
  }

  /** Something was written. */
  begin(): void {
    if (this.#cancelLook || this.#isClosed) return;
    const now = backgroundClock.now();
    // in the meantime nothing waited for the reader
    this.#rest(now - this.#countedTo);
    this.#countedTo = now;
    this.#schedule();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelLook?.();
  }

  #schedule(): void {
    this.#cancelLook = backgroundClock.schedule(() => void this.#look(), this.#lookMs);
  }

  async #look(): Promise<void> {
    const socket = this.#options.socket();
    const now = backgroundClock.now();
    const ms = Math.min(now - this.#countedTo, 2 * this.#lookMs);
    this.#countedTo = now;
    if (!socket || socket.writableLength === 0) {
      this.#rest(ms);
      // without a socket it is the turn of another response, and this one is behind it
      if (socket) this.#cancelLook = undefined;
      else this.#schedule();
      return;
    }
    await this.#judge(socket, ms);
    if (this.#isClosed) return;
    if (this.#leftMs > 0 && this.#silentMs < this.#graceMs) return this.#schedule();
    this.close();
    this.#options.onLate();
  }

  async #judge(socket: Socket, ms: number): Promise<void> {
    const accepted = acceptedBytes(socket);
    const queues = await this.#read(socket);
    const unread = this.#options.isProxy ? undefined : queues?.unread;
    const takenBytes = accepted - (queues?.unacknowledged ?? 0) - (unread ?? 0);
    const measure = unread !== undefined ? "read" : queues ? "acknowledged" : "accepted";
    if (measure !== (this.#measure ?? measure)) {
      // the tables are not a snapshot, and a row can be missing once: two measures cannot be
      // compared
      this.#measure = measure;
      this.#taken = takenBytes;
      return;
    }
    this.#measure = measure;
    const moved = Math.max(0, takenBytes - this.#taken);
    const savedBytes = unread === undefined ? hiddenBytes : 0;
    this.#leftMs = Math.min(
      this.#graceMs + savedBytes / this.#bytesPerMs,
      this.#leftMs - ms + moved / this.#bytesPerMs,
    );
    const isSilent = queues?.isUnanswered === true && moved === 0 && accepted === this.#accepted;
    this.#silentMs = isSilent ? this.#silentMs + ms : 0;
    this.#accepted = accepted;
    this.#taken += moved;
  }

  #rest(ms: number): void {
    this.#leftMs = Math.max(this.#leftMs, Math.min(this.#graceMs, this.#leftMs + ms));
  }
}

/** Looks within the time that a reader has. */
const looks = 6;

/** Whether a proxy says that it passes the response to this request on. */
export function isForwarded(headers: IncomingHttpHeaders): boolean {
  return ["x-forwarded-for", "forwarded", "via"].some((name) => headers[name] !== undefined);
}
