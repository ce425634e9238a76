import type { AuthInfo } from "@modelcontextprotocol/server";
import type { Caller } from "@sluice/server";

/** A request as plain values, so that no transport has to build web objects. */
export interface PlainRequest {
  readonly method: string;
  /** Path of the URL and what follows it, as sent. */
  readonly target: string;
  /** A header by its lower-case name. */
  header(name: string): string | undefined;
  /**
   * Address of the client: IPv4 in dotted form, or IPv6 in its canonical form without a zone. Absent if the adapter does
   * not know it.
   */
  readonly address?: string | undefined;
  /** Access token that the app's middleware verified. */
  readonly authInfo?: AuthInfo | undefined;
  /** Aborts when the connection closes. */
  readonly signal?: AbortSignal | undefined;
  /** Absent if the request has none. What is unread after the response is discarded, and the connection closed. */
  readonly body?: RequestBody | undefined;
}

/** A body that is still to come. */
export interface RequestBody {
  /**
   * Gives each chunk to `take`, which owns it, and waits for what that returns; a client that waits
   * for `100 Continue` gets it now. Resolves at the end. Rejects with `interrupted` when the sender
   * goes before it, with `signal.reason` after an abort, and with what `take` throws. Call it once.
   */
  read(take: TakeChunk, signal: AbortSignal): Promise<void>;
}

/** Takes a chunk; a promise means that the next one has to wait for it. */
export type TakeChunk = (chunk: Uint8Array) => Promise<void> | undefined;

/** The caller that a request names. */
export function callerOfPlain(request: PlainRequest): Caller {
  return {
    header: (name) => request.header(name),
    address: request.address,
    authInfo: request.authInfo,
    sessionId: request.header("mcp-session-id"),
  };
}
