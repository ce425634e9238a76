import type { ByteLease } from "../limits/byte-account.ts";

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

/**
 * Header that leads from a copy of a request's headers back to the request: some SDKs and adapters give handlers only such
 * copies. A server sets it; what a client sends there finds no request.
 */
export const SHARED_REQUEST_HEADER = "sluice-request-id";

const requests = new Map<string, Request>();

/**
 * Lets handlers that see the headers of a request find the request itself, until the function that is given back is called. Does
 * nothing where headers cannot be changed, as on some runtimes.
 */
export function shareRequest(request: Request): () => void {
  const { headers } = request;
  const known = headers.get(SHARED_REQUEST_HEADER) ?? "";
  const before = requests.get(known);
  const id = before ? known : crypto.randomUUID();
  try {
    if (!before) headers.set(SHARED_REQUEST_HEADER, id);
  } catch {
    return () => {};
  }
  requests.set(id, request);
  return () => {
    // a copy that outlives it may have been shared since
    if (requests.get(id) !== request) return;
    if (before) requests.set(id, before);
    else requests.delete(id);
  };
}

/** The request that was shared with these headers, if it still is. */
export function sharedRequest(headers: Pick<Headers, "get">): Request | undefined {
  const id = headers.get(SHARED_REQUEST_HEADER);
  return id === null ? undefined : requests.get(id);
}

/** What is known of a request, or of the one that was shared with its headers. */
export function knownOf<Known>(
  known: WeakMap<Request, Known>,
  request: Request | undefined,
): Known | undefined {
  if (!request) return undefined;
  const shared = known.has(request) ? request : sharedRequest(request.headers);
  return shared && known.get(shared);
}
