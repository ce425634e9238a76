import { discardReply, type Reply } from "./reply.ts";
import type { RpcFault } from "./rpc-fault.ts";

/**
 * Where the handler of `resources/stream` leaves an answer that is no JSON-RPC result. A transport
 * that can replace the HTTP response opens one for the request that it hands to the SDK; without
 * one the answer is a download URL.
 */
export interface StreamSlot {
  /** Client capabilities of the session's `initialize`, as they were sent. */
  readonly capabilities?: unknown;
  /** Bytes or a redirect, in place of the SDK's response. */
  reply?: Reply;
  /** The error, in place of the SDK's, which rewrites some codes and knows no HTTP status for them. */
  fault?: RpcFault;
  /** The transport has left: nobody will take a reply any more. */
  isClosed?: boolean;
}

const slots = new WeakMap<Request, StreamSlot>();

/** Opens a slot for the very request object that the SDK's handler will see as `ctx.http.req`. */
export function openStreamSlot(request: Request, capabilities?: unknown): StreamSlot {
  const slot: StreamSlot = capabilities === undefined ? {} : { capabilities };
  slots.set(request, slot);
  return slot;
}

/** Ends the time in which a reply may be left, and discards one that is not wanted. */
export function closeStreamSlot(slot: StreamSlot): void {
  slot.isClosed = true;
  if (slot.reply) discardReply(slot.reply);
}

/** The slot of a request, if its transport opened one. */
export function slotOf(request: Request | undefined): StreamSlot | undefined {
  return request && slots.get(request);
}
