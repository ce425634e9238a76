import type { OpenFile } from "../source/file-source.ts";

/** How requests of an upload go out. */
export interface Sender {
  /**
   * Sends one HTTP request and gives its answer, whatever the status. It follows nothing, keeps no
   * cookies and retries nothing. Rejects with `interrupted` when the connection broke,
   * `unavailable` when there was none, `timeout`, `untrusted`, `protocol`, what reading the file
   * threw, or with `signal.reason`.
   */
  send(request: SenderRequest): Promise<SenderAnswer>;
  /** Most bytes in one step of a resumable upload; absent: all that is left. */
  readonly stepBytes?: number;
  /** True where larger stretches of a file pass by unseen: their digest takes a reading of its own. */
  readonly blind?: true;
}

/** One request. */
export interface SenderRequest {
  readonly method: "POST" | "PUT" | "PATCH" | "HEAD" | "DELETE";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent: a request without a body. */
  readonly body?: Outgoing;
  readonly signal: AbortSignal;
  /** `public`: connect to addresses of the public internet only. */
  readonly scope: "public" | "any";
  readonly timeouts: SendTimeouts;
  /** Called with the bytes of the body that went out, as they do. */
  readonly onSent?: (bytes: number) => void;
}

/** How long to wait for what, in milliseconds. */
export interface SendTimeouts {
  /** For a connection; 10 s. */
  readonly connectMs: number;
  /** For the answer, once everything is sent, and 1 s more for every 16 MiB of it; 60 s. */
  readonly answerMs: number;
  /** In which the server must take a byte; 30 s. */
  readonly idleMs: number;
  /** Least bytes per second, averaged over `rateWindowMs`; 1,024. Slower is a `timeout`. */
  readonly minBytesPerSecond: number;
  /** 30 s. */
  readonly rateWindowMs: number;
  /** Shortens or lengthens the pauses between tries; 1. */
  readonly pauseScale: number;
}

/** A body: what goes out, in order. */
export interface Outgoing {
  readonly length: number;
  readonly pieces: readonly Piece[];
}

/** Bytes, or a stretch of a file. */
export type Piece = Uint8Array<ArrayBuffer> | FilePiece;

/** A stretch of a file. */
export interface FilePiece {
  readonly file: OpenFile;
  readonly start: number;
  readonly end: number;
  /** Sees each chunk on its way, with its place in the file, unless the sender is blind to so many. */
  readonly seen?: (chunk: Uint8Array, at: number) => void;
}

/** Status, headers and the JSON of an answer. */
export interface SenderAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** What was JSON of at most 64 KiB; else absent. The server's words: never for a model. */
  readonly json?: unknown;
  /** False when the answer came before the whole body was sent. */
  readonly sentAll: boolean;
}

/** The defaults. */
export const sendTimeouts: SendTimeouts = {
  connectMs: 10_000,
  answerMs: 60_000,
  idleMs: 30_000,
  minBytesPerSecond: 1_024,
  rateWindowMs: 30_000,
  pauseScale: 1,
};

/** How long to wait for an answer to a body that was sent. */
export function answerMsOf(timeouts: SendTimeouts, bytes: number): number {
  return timeouts.answerMs + (bytes / 2 ** 24) * 1_000;
}
