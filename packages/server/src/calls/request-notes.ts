import type { ByteLease } from "../limits/byte-account.ts";
import { knownOf } from "./shared-request.ts";

/** Says when answers are sent. */
export interface AnswerKeeper {
  /**
   * Calls `release` once the last byte of the answer to this JSON-RPC request is handed to the network, or will never be; at
   * once where the connection is gone already. `release` is idempotent.
   */
  keep(id: string | number, release: () => void): void;
}

/** Facts of a web request that only its transport knows. */
export interface RequestNotes {
  /** Address of the client, as in `Caller`. */
  readonly address?: string | undefined;
  /** Absent: the transport does not say when an answer is sent. */
  readonly answers?: AnswerKeeper | undefined;
  /** Counts what waits in memory for the client, beside what handlers made. */
  readonly unsent?: ByteLease | undefined;
  /** The request opened a connection on which the server can send messages until it closes. Default: false. */
  readonly isLasting?: boolean;
}

const notes = new WeakMap<Request, RequestNotes>();

/**
 * Notes something of a request, for the handlers that see this very object or a clone of it. For a copy that is made in
 * another way call it again with {@link notesOf} the original.
 */
export function noteRequest(request: Request, known: RequestNotes): void {
  notes.set(request, known);
  // the SDK gives handlers of session revisions a clone
  const clone = (): Request => {
    const copy = Request.prototype.clone.call(request);
    noteRequest(copy, known);
    return copy;
  };
  Object.defineProperty(request, "clone", { configurable: true, value: clone });
}

/** What was noted of a request; nothing where no transport did. */
export function notesOf(request: Request | undefined): RequestNotes {
  return knownOf(notes, request) ?? {};
}
