import { definedMembers } from "@sluice/core/internal";
import type { RpcFault } from "../faults/rpc-fault.ts";
import { discardReply, type Reply } from "../http/reply.ts";
import type { ByteLease } from "../limits/byte-account.ts";

/** Calls back when responses are sent. */
export interface SentListener {
  /**
   * Calls `release` once the last byte of the response to this JSON-RPC request is handed to the
   * network, or will never be; at once if the connection is gone already. `release` is idempotent.
   */
  onSent(id: string | number, release: () => void): void;
}

/** Facts of a web request that only its transport knows. */
export interface RequestNotes {
  /** Address of the client, as in `Caller`. */
  readonly address?: string | undefined;
  /** Absent: the transport does not say when a response is sent. */
  readonly sentListener?: SentListener | undefined;
  /**
   * Counts response bytes that wait in memory for the client to read. What handlers hold is counted by `AnswerLeases`.
   */
  readonly unsent?: ByteLease | undefined;
  /** The request opened a connection on which the server can send messages until it closes. Default: false. */
  readonly isLasting?: boolean;
}

/**
 * A request from the gate to the socket. The transport sets the request, its client and the room for a reply; the handler
 * leaves its reply in the slot. Our layers pass the exchange on as an argument; behind the SDK or a framework,
 * {@link findExchange} finds it by its request.
 */
export class Exchange implements RequestNotes {
  readonly request: Request;
  address: string | undefined;
  sentListener: SentListener | undefined;
  unsent: ByteLease | undefined;
  isLasting: boolean;
  /** Where the handler may leave a response that the SDK cannot give. Absent: nothing would take it. */
  slot: ReplySlot | undefined = undefined;

  constructor(request: Request, notes: RequestNotes = {}) {
    this.request = request;
    this.address = notes.address;
    this.sentListener = notes.sentListener;
    this.unsent = notes.unsent;
    this.isLasting = notes.isLasting === true;
    exchanges.set(request, this);
  }

  /**
   * Ties a request, such as a copy, and its clones to this exchange: in session revisions the SDK gives handlers a
   * clone. Replaces `request.clone`, so that clones are tied as well.
   */
  tie(request: Request): void {
    exchanges.set(request, this);
    const clone = (): Request => {
      const copy = Request.prototype.clone.call(request);
      this.tie(copy);
      return copy;
    };
    Object.defineProperty(request, "clone", { configurable: true, value: clone });
  }

  /** Opens a slot. `request` is tied to this exchange; the handler gets it, or a copy of its headers. */
  openSlot(request: Request, given: SlotOptions = {}): ReplySlot {
    const { capabilities, onIdentified } = given;
    const slot: ReplySlot = {
      capabilities,
      ...definedMembers({ onIdentified }),
      onClose: shareRequest(request),
    };
    this.slot = slot;
    return slot;
  }
}

/** The only table of exchanges: used behind the SDK and frameworks, which pass on nothing but a request. */
const exchanges = new WeakMap<Request, Exchange>();

/** The exchange that this request object is tied to. */
export function exchangeTiedTo(request: Request): Exchange | undefined {
  return exchanges.get(request);
}

/** The exchange of a request, found by the object itself, else by {@link SHARED_REQUEST_HEADER}. */
export function findExchange(request: Request | undefined): Exchange | undefined {
  if (!request) return undefined;
  const exchange = exchanges.get(request);
  if (exchange) return exchange;
  const original = sharedRequest(request.headers);
  return original && exchanges.get(original);
}

/**
 * Attaches notes to a request and its clones. For any other copy call `noteRequest(copy, notesOf(original))`: the copy
 * gets the notes and the slot, and does not keep the original alive.
 */
export function noteRequest(request: Request, notes: RequestNotes): void {
  const exchange = exchanges.get(request) ?? new Exchange(request);
  const { address, sentListener, unsent, isLasting = false } = notes;
  Object.assign(exchange, { address, sentListener, unsent, isLasting });
  if (notes instanceof Exchange) exchange.slot ??= notes.slot;
  exchange.tie(request);
}

/** The notes of a request; empty if no transport left any. */
export function notesOf(request: Request | undefined): RequestNotes {
  return findExchange(request) ?? {};
}

/**
 * Header that leads from a copy of a request's headers back to the request: some SDKs and adapters give handlers only such
 * copies. A server sets it; what a client sends there finds no request.
 */
export const SHARED_REQUEST_HEADER = "sluice-request-id";

const requests = new Map<string, Request>();

/**
 * Lets handlers that see the headers of a request find the request itself, until the returned function is called. Does
 * nothing if headers cannot be changed, as on some runtimes.
 */
export function shareRequest(request: Request): () => void {
  const { headers } = request;
  const sharedId = headers.get(SHARED_REQUEST_HEADER) ?? "";
  const before = requests.get(sharedId);
  const id = before ? sharedId : crypto.randomUUID();
  try {
    if (!before) headers.set(SHARED_REQUEST_HEADER, id);
  } catch {
    return () => {};
  }
  requests.set(id, request);
  return () => {
    // the id may have been shared with a copy since
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

/**
 * Where a handler leaves a response that the SDK cannot send. `resources/stream` leaves a reply or a fault; any other
 * resource method only the 401 for a caller that must sign in. The transport opens a slot before it calls the SDK, if
 * it can replace the HTTP response. Without a slot the answer to `resources/stream` is a download URL.
 */
export interface ReplySlot {
  /**
   * What the session's `initialize` declared in fields that the SDK drops, as client capabilities; `null` if it declared
   * nothing there. Absent if the transport did not see it, or the server has no sessions.
   */
  readonly capabilities?: object | null | undefined;
  /** Bytes or a redirect, in place of the SDK's response. */
  reply?: Reply;
  /** The error, in place of the SDK's, which rewrites some codes and has no HTTP status for them. */
  fault?: RpcFault;
  /** Called when the caller of a resource method is identified: no refusal with 401 comes any more. */
  readonly onIdentified?: () => void;
  /** Called when the slot is closed. */
  readonly onClose?: () => void;
  /** The transport has closed the slot and takes no reply any more. */
  isClosed?: boolean;
}

type SlotOptions = Pick<ReplySlot, "capabilities" | "onIdentified">;

/** Opens a slot for a request. The handler sees this very object as `ctx.http.req`, or a copy of its headers. */
export function openReplySlot(request: Request, options: SlotOptions = {}): ReplySlot {
  const exchange = exchanges.get(request) ?? new Exchange(request, notesOf(request));
  return exchange.openSlot(request, options);
}

/** Closes a slot, and discards a reply that the transport did not take. */
export function closeReplySlot(slot: ReplySlot): void {
  slot.isClosed = true;
  slot.onClose?.();
  if (slot.reply) discardReply(slot.reply);
}

/** Leaves a reply for the transport, or discards it if no transport takes one any more. */
export function leaveReply(slot: ReplySlot | undefined, reply: Reply): void {
  if (slot === undefined || slot.isClosed) discardReply(reply);
  else slot.reply = reply;
}
