import { SluiceError } from "@sluice/core";
import { BINARY_EXTENSION_ID, type BinaryRef, definedMembers } from "@sluice/core/internal";
import { findRefs, mayHoldRefs, type RefHolder } from "./binary-refs.ts";
import { Inbox, type InboxOptions } from "./inbox.ts";
import {
  agreeOn,
  CLIENT_CAPABILITIES,
  declareBinary,
  isObject,
  opensExchange,
  readDeclaration,
  type BinaryAbility,
  type BinaryRole,
  type BinaryTerms,
} from "./negotiation.ts";
import { discardBytes, Outbox, type OutboxOptions, type OutgoingStream } from "./outbox.ts";

/** Settings of this end of a connection. */
export interface BinaryPeerOptions
  extends BinaryAbility, Omit<InboxOptions, "maxBinaryBytes">, OutboxOptions {
  readonly role: BinaryRole;
  /** Capabilities that the peer declared before, such as in the `initialize` of its session. */
  readonly declared?: unknown;
}

/** An outgoing message. */
export interface Sending {
  /** The message as JSON, without a line end. */
  readonly text: string;
  /** The streams it refers to, in its order: send these after it. */
  readonly streams: readonly OutgoingStream[];
}

/** A reference in an incoming message. */
export interface AnnouncedRef extends BinaryRef {
  /** The inbox did not take it: its bytes are to be dropped. */
  readonly isRefused?: true;
}

/** An incoming message. */
export interface Received<Incoming> {
  /** For the SDK: references have become handles that {@link openBinary} takes. */
  readonly message: Incoming;
  /** The streams it refers to, in its order. */
  readonly refs: readonly AnnouncedRef[];
}

/**
 * Binary transfer on one connection, between a transport and the SDK above it: every message passes
 * through {@link received} or {@link sending}, which declare, negotiate, and turn references into
 * streams and back. Without negotiation, messages pass as they are.
 */
export interface BinaryPeer {
  readonly outbox: Outbox;
  readonly inbox: Inbox;
  /** The terms of both ends, by the last declaration; `undefined` while everything is base64. */
  readonly terms: BinaryTerms | undefined;
  /**
   * Reads a message of the peer. `message` is changed in place. Throws `protocol` for one that
   * announces bytes that cannot be told apart: after it the stream mode cannot continue.
   */
  received<Incoming extends object>(message: Incoming): Received<Incoming>;
  /**
   * Writes a message to the peer. Throws `protocol` for a request or notification that refers to
   * bytes which are not in the outbox; of a response it makes an error instead.
   */
  sending(message: object): Sending;
  /** Ends everything that is outstanding in either direction. */
  close(reason: unknown): void;
}

/** Members that a transport adds to a request for the handlers above it, under `_meta`; never sent. */
interface BinaryTag extends BinaryTerms {
  /** Of the connection, among those of this process. */
  readonly connection: string;
  /** The member of the request's params. */
  readonly transferMode?: unknown;
}

const connections = new Map<string, BinaryPeer>();

/** The connection that a tag names. */
export function findPeer(connection: unknown): BinaryPeer | undefined {
  return typeof connection === "string" ? connections.get(connection) : undefined;
}

interface Message {
  readonly id?: unknown;
  readonly method?: unknown;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
}

/** Makes an end of a connection. Handlers find it until it is closed. */
export function createBinaryPeer(options: BinaryPeerOptions): BinaryPeer {
  const { role } = options;
  const connection = crypto.randomUUID();
  const outbox = new Outbox(options);
  const inbox = new Inbox(options);
  /** Requests that are going to be answered with capabilities. */
  const openings = new Set<unknown>();
  let declaration = readDeclaration(options.declared);

  function noteRequest(message: Message): void {
    const { method, id, params = {} } = message;
    // for the SDK to refuse
    if (!isObject(params)) return;
    if (opensExchange(message) && id !== undefined && openings.size < 16) openings.add(id);
    const meta = isObject(params["_meta"]) ? params["_meta"] : undefined;
    const capabilities =
      method === "initialize" ? params["capabilities"] : meta?.[CLIENT_CAPABILITIES];
    // a session declares once; a request that declares for itself declares everything
    if (capabilities !== undefined) declaration = readDeclaration(capabilities);
    const terms = agreeOn(options, declaration);
    if (terms && id !== undefined) {
      const { transferMode } = params;
      const tag: BinaryTag = { connection, ...terms, ...definedMembers({ transferMode }) };
      message.params = { ...params, _meta: { ...meta, [BINARY_EXTENSION_ID]: tag } };
    } else if (meta && BINARY_EXTENSION_ID in meta) {
      // only this end may set the tag
      const { [BINARY_EXTENSION_ID]: _forged, ...rest } = meta;
      message.params = { ...params, _meta: rest };
    }
  }

  function noteOutgoing(message: Message): Message {
    const { method, id, params, result } = message;
    if (role === "server") {
      if (method !== undefined || !result || !openings.delete(id)) return message;
      const capabilities = declareBinary(result["capabilities"], role, options);
      return { ...message, result: { ...result, capabilities } };
    }
    if (opensExchange(message)) openings.add(id);
    if (method === "initialize")
      return {
        ...message,
        params: {
          ...params,
          capabilities: declareBinary(params?.["capabilities"], role, options),
        },
      };
    const meta = params?.["_meta"];
    if (!isObject(meta) || !isObject(meta[CLIENT_CAPABILITIES])) return message;
    const capabilities = declareBinary(meta[CLIENT_CAPABILITIES], role, options);
    return {
      ...message,
      params: { ...params, _meta: { ...meta, [CLIENT_CAPABILITIES]: capabilities } },
    };
  }

  /** True for references to bytes: interleaved ones say so themselves, others need a declaration. */
  function isMeant(ref: Readonly<Record<string, unknown>>): boolean {
    return ref["interleave"] === true || declaration !== undefined;
  }

  const peer: BinaryPeer = {
    outbox,
    inbox,
    get terms() {
      return agreeOn(options, declaration);
    },
    received(received) {
      const message = received as Message;
      if (role === "server" && message.method !== undefined) noteRequest(message);
      if (role === "client" && message.method === undefined && openings.delete(message.id))
        declaration = readDeclaration(message.result?.["capabilities"]);
      // after what the message itself declares
      const holders = refsOf(received, "receive", isMeant);
      return { message: received, refs: holders.map((each) => hand(inbox, each)) };
    },
    sending(message) {
      const outgoing = noteOutgoing(message);
      const text = JSON.stringify(outgoing);
      if (
        !agreeOn(options, declaration) ||
        !(text.includes(BINARY_EXTENSION_ID) || mayHoldRefs(text))
      )
        return { text, streams: [] };
      const copy = JSON.parse(text) as Message;
      const streams: OutgoingStream[] = [];
      try {
        announce(copy);
        for (const { ref } of refsOf(copy, "send")) {
          const stream = outbox.claim(ref.streamId);
          if (!stream)
            throw new SluiceError(
              "protocol",
              `binary: send: the message refers to stream ${ref.streamId}, which is not waiting`,
            );
          streams.push(stream);
        }
      } catch (error) {
        for (const stream of streams) discardBytes(stream, error);
        if (copy.method !== undefined) throw error;
        const fault = { code: -32603, message: "Internal error", data: { reason: "internal" } };
        return { text: JSON.stringify({ jsonrpc: "2.0", id: copy.id, error: fault }), streams: [] };
      }
      return { text: JSON.stringify(copy), streams };
    },
    close(reason) {
      connections.delete(connection);
      outbox.close(reason);
      inbox.close(reason);
    },
  };
  connections.set(connection, peer);
  return peer;
}

function refsOf(
  message: object,
  what: string,
  isMeant?: Parameters<typeof findRefs>[1],
): RefHolder[] {
  try {
    return findRefs(message, isMeant);
  } catch (error) {
    throw new SluiceError("protocol", `binary: ${what}: a reference to bytes is malformed`, {
      cause: error,
    });
  }
}

/** Puts the members of the RFC beside the copies that passed through the SDK. */
function announce(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (isObject(value)) {
    const { _meta: meta } = value;
    const ours = isObject(meta) ? meta[BINARY_EXTENSION_ID] : undefined;
    if (isObject(ours) && isObject(ours["binaryRef"])) {
      value["binaryRef"] = ours["binaryRef"];
      if (typeof value["type"] === "string") value["transferMode"] = "binary";
    }
  }
  for (const [name, member] of Object.entries(value)) if (name !== "_meta") announce(member);
}

/** Puts a handle beside a reference, and what an SDK needs to take the content for valid. */
function hand(inbox: Inbox, { holder, ref }: RefHolder): AnnouncedRef {
  const expected = expectIn(inbox, ref);
  const meta = isObject(holder["_meta"]) ? holder["_meta"] : {};
  const _meta = { ...meta, [BINARY_EXTENSION_ID]: { binaryRef: ref, ...expected } };
  const { type, mimeType } = holder;
  if (type === "blob") {
    // MCP has no such content: a resource with a made-up URI comes nearest
    for (const name of Object.keys(holder)) delete holder[name];
    const resource = { uri: `urn:uuid:${ref.streamId}`, mimeType, blob: "", _meta };
    Object.assign(holder, { type: "resource", resource });
  } else Object.assign(holder, { _meta, [type === undefined ? "blob" : "data"]: "" });
  return "fault" in expected ? { ...ref, isRefused: true } : ref;
}

function expectIn(inbox: Inbox, ref: BinaryRef): { handle: string } | { fault: string } {
  try {
    return { handle: inbox.expect(ref) };
  } catch (error) {
    if (!SluiceError.is(error)) throw error;
    return { fault: error.code };
  }
}
