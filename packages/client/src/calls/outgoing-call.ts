import { STREAM_METHOD } from "@sluice/core/wire";
import { CALL_META, findCall, type StreamCall } from "./stream-calls.ts";
import { streamingCapabilities } from "./streaming-capabilities.ts";

/** A stream call that an SDK is about to send, and the request as it goes over the wire. */
export interface OutgoingCall {
  readonly call: StreamCall;
  readonly id: unknown;
  readonly message: object;
}

/** The stream call in a JSON-RPC message; `undefined` for every other message. */
export function outgoingCall(message: unknown): OutgoingCall | undefined {
  const { id, method, params } = (message ?? {}) as JsonRpcCall;
  if (method !== STREAM_METHOD) return undefined;
  const { [CALL_META]: callId, ...meta } = params?._meta ?? {};
  const call = findCall(callId);
  if (!call) return undefined;
  const _meta = { ...meta, [CLIENT_CAPABILITIES]: declare(meta[CLIENT_CAPABILITIES], call) };
  return { call, id, message: { ...(message as object), params: { ...params, _meta } } };
}

interface JsonRpcCall {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: { readonly _meta?: Record<string, unknown> };
}

/** Where a request carries what its client can do; stateless servers of either era read it there. */
const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

function declare(declared: unknown, call: StreamCall): object {
  const before = (declared ?? {}) as { extensions?: object };
  const ours = streamingCapabilities(call.streaming);
  return { ...before, ...ours, extensions: { ...before.extensions, ...ours.extensions } };
}
