import { definedMembers } from "@sluice/core";
import type { RpcFault } from "../faults/rpc-fault.ts";
import { discardReply, type Reply } from "../http/reply.ts";
import { knownOf, shareRequest } from "./exchange.ts";

/**
 * Where the handler of `resources/stream` leaves an answer that is no JSON-RPC result, and any resource method that a caller has
 * to sign in first. A transport that can replace the HTTP response opens one for the request that it hands to the SDK; without
 * one the answer is a download URL.
 */
export interface ReplySlot {
  /**
   * Client capabilities of the session's `initialize`, as they were sent; `null` where it declared no streaming. Absent where
   * the transport did not see it, or the server has no sessions.
   */
  readonly capabilities?: object | null | undefined;
  /** Bytes or a redirect, in place of the SDK's response. */
  reply?: Reply;
  /** The error, in place of the SDK's, which rewrites some codes and knows no HTTP status for them. */
  fault?: RpcFault;
  /** Called when the caller of a resource method is identified: no refusal with 401 comes any more. */
  readonly onIdentified?: () => void;
  /** The transport has closed the slot and takes no reply any more. */
  isClosed?: boolean;
}

const slots = new WeakMap<Request, ReplySlot>();
const shares = new WeakMap<ReplySlot, () => void>();

/** Opens a slot for a request. The handler sees this very object as `ctx.http.req`, or a copy of its headers. */
export function openReplySlot(
  request: Request,
  { capabilities, onIdentified }: Pick<ReplySlot, "capabilities" | "onIdentified"> = {},
): ReplySlot {
  const slot: ReplySlot = { capabilities, ...definedMembers({ onIdentified }) };
  slots.set(request, slot);
  shares.set(slot, shareRequest(request));
  return slot;
}

/** Ends the time in which a reply may be left, and discards one that is not wanted. */
export function closeReplySlot(slot: ReplySlot): void {
  slot.isClosed = true;
  shares.get(slot)?.();
  if (slot.reply) discardReply(slot.reply);
}

/** Leaves a reply for the transport, or discards it where no transport takes one any more. */
export function leaveReply(slot: ReplySlot | undefined, reply: Reply): void {
  if (slot === undefined || slot.isClosed) discardReply(reply);
  else slot.reply = reply;
}

/** The slot of a request, if its transport opened one. */
export function replySlotOf(request: Request | undefined): ReplySlot | undefined {
  return knownOf(slots, request);
}
