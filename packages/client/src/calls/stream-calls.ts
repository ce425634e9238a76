import type { SluiceError } from "@sluice/core";
import {
  definedMembers,
  type DeliveryMode,
  EXTENSION_ID,
  type TreeBounds,
} from "@sluice/core/internal";
import type { HopExchange, HopAnswer } from "../net/exchange.ts";
import type { SessionCredentials } from "../net/request-headers.ts";

/** What both versions of the SDK's `Client` have. */
export interface RequestingClient {
  // the two SDKs agree on the call and differ in its types
  // oxlint-disable-next-line typescript/no-explicit-any
  request(request: any, resultSchema: any, options?: any): Promise<any>;
}

/** One call for bytes on its way through an SDK client and its transport. */
export interface StreamCall {
  readonly method: string;
  /** Of the resource; of the first one if the call is for many. */
  readonly uri: string;
  /** Media type of a response with bytes. Default: any, of one that names the resource. */
  readonly bytesType?: string;
  /** What the call declares, whatever the client declared when it connected. */
  readonly streaming: DeclaredStreaming;
  readonly connectMs: number;
  /** Milliseconds until the response's headers must be there. */
  readonly headersMs: number;
  /** Lives as long as the bytes do, longer than the JSON-RPC request. */
  readonly signal: AbortSignal;
  /** Set by the middleware; absent when the transport has none. */
  answer?: CallAnswer;
}

/** What the middleware kept of the HTTP response to a call, or knows in advance if that is a message. */
export interface CallAnswer {
  readonly exchange: HopExchange;
  readonly credentials: SessionCredentials;
  /** HTTP status; absent if the response is a message of another transport. */
  readonly status?: number;
  /** Address that answered, if the platform reports it. */
  readonly address?: string | undefined;
  /** Bytes on the answer itself. */
  readonly direct?: HopAnswer;
  /** Answer was a redirect: its headers. */
  readonly redirect?: Headers;
  /** The response was neither bytes nor JSON-RPC. */
  readonly failure?: SluiceError;
  /** The caller named the URL itself: what is behind it has no other name. */
  readonly isLink?: boolean;
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

/** A stream call that an SDK is about to send, and the request as it goes over the wire. */
interface OutgoingCall {
  readonly call: StreamCall;
  readonly id: unknown;
  readonly message: object;
}

/** The stream call in a JSON-RPC message; `undefined` for every other message. */
export function outgoingCall(message: unknown): OutgoingCall | undefined {
  const { id, params } = (message ?? {}) as JsonRpcCall;
  const { [CALL_META]: callId, ...meta } = params?._meta ?? {};
  const call = typeof callId === "string" ? calls.get(callId) : undefined;
  if (!call) return undefined;
  const _meta = { ...meta, [CLIENT_CAPABILITIES]: declare(meta[CLIENT_CAPABILITIES], call) };
  return { call, id, message: { ...(message as object), params: { ...params, _meta } } };
}

interface JsonRpcCall {
  readonly id?: unknown;
  readonly params?: { readonly _meta?: Record<string, unknown> };
}

/** Where a request carries the capabilities of its client; stateless servers read it there. */
const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

function declare(declared: unknown, call: StreamCall): object {
  const before = (declared ?? {}) as { extensions?: object };
  const ours = streamingCapabilities(call.streaming);
  return { ...before, ...ours, extensions: { ...before.extensions, ...ours.extensions } };
}

/** Client capabilities that declare resource streaming. */
export interface StreamingCapabilities {
  /** The field of SEP-2532 §1. */
  readonly resourceStreaming: { readonly maxStreamSize?: number };
  /** The same as a vendor extension (SEP-2133), which every SDK passes on. */
  readonly extensions: { readonly [EXTENSION_ID]: StreamingExtension };
}

/** What a client declares about streaming. */
export interface DeclaredStreaming {
  readonly maxStreamBytes?: number;
  readonly prefer?: readonly DeliveryMode[];
  /** Bounds of a response with many files. */
  readonly tree?: TreeBounds;
}

/** Our settings as an extension's data. */
// oxlint-disable-next-line typescript/consistent-type-definitions -- an SDK wants an index signature, which only a type alias has
export type StreamingExtension = {
  maxStreamSize?: number;
  prefer?: string[];
  tree?: { maxFiles: number; maxBytes: number };
};

/**
 * The capabilities of `createStreaming` alone: they tell a server that it may answer `resources/stream` with bytes.
 * Without `maxStreamBytes` the server need not mind the size.
 */
export function streamingCapabilities(streaming: DeclaredStreaming = {}): StreamingCapabilities {
  const { maxStreamBytes: maxStreamSize, prefer, tree } = streaming;
  if (maxStreamSize !== undefined && !(Number.isSafeInteger(maxStreamSize) && maxStreamSize > 0))
    throw new RangeError(
      `client: maxStreamBytes ${maxStreamSize} is not a byte count; pass a safe integer from 1`,
    );
  const size = definedMembers({ maxStreamSize });
  return {
    resourceStreaming: size,
    extensions: {
      [EXTENSION_ID]: definedMembers({
        maxStreamSize,
        prefer: prefer && [...prefer],
        tree,
      }),
    },
  };
}
