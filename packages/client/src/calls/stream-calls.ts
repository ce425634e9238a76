import type { SluiceError } from "@sluice/core";
import type { ClientStreaming } from "@sluice/core/wire";
import type { Exchange, HopAnswer } from "../net/exchange.ts";
import type { SessionCredentials } from "../net/hop-headers.ts";

/** One `resources/stream` call on its way through an SDK client and its transport. */
export interface StreamCall {
  readonly uri: string;
  /** What the call declares, whatever the client declared when it connected. */
  readonly streaming: ClientStreaming;
  readonly connectMs: number;
  /** Milliseconds until the answer's headers must be there. */
  readonly headersMs: number;
  /** Lives as long as the bytes do, longer than the JSON-RPC request. */
  readonly signal: AbortSignal;
  /** Set by the middleware; absent when the transport has none. */
  answer?: CallAnswer;
}

/** What the middleware kept of the HTTP answer to a call, or knows beforehand where that is a message. */
export interface CallAnswer {
  readonly exchange: Exchange;
  readonly credentials: SessionCredentials;
  /** HTTP status; absent where the answer is a message of another transport. */
  readonly status?: number;
  /** Address that answered, where the platform tells. */
  readonly address?: string | undefined;
  /** Bytes on the answer itself. */
  readonly direct?: HopAnswer;
  /** Answer was a redirect: its headers. */
  readonly redirect?: Headers;
  /** The answer was neither bytes nor JSON-RPC. */
  readonly failure?: SluiceError;
}

/** Key in a request's `_meta` that ties it to its call. The middleware takes it out before the wire. */
export const CALL_META = "dev.sluice/call";

const calls = new Map<string, StreamCall>();

/** Makes a call findable for the middleware; `end` forgets it. */
export function beginCall(call: StreamCall): { readonly id: string; readonly end: () => void } {
  const id = crypto.randomUUID();
  calls.set(id, call);
  return { id, end: () => void calls.delete(id) };
}

/** The call of an id, while it is going on. */
export function findCall(id: unknown): StreamCall | undefined {
  return typeof id === "string" ? calls.get(id) : undefined;
}
