import { SluiceError } from "@sluice/core";
import { BINARY_EXTENSION_ID, type BinaryRef } from "@sluice/core/internal";
import { isObject, type BinaryTerms } from "./negotiation.ts";
import { discardBytes, type OutgoingBytes } from "./outbox.ts";
import { findPeer, type BinaryPeer } from "./peer.ts";

/** Where bytes can go beside a message. */
export interface Outlet {
  /** Largest transfer in bytes that the peer accepts. */
  readonly maxBinaryBytes: number;
  /** Takes charge of bytes and gives the reference for a message. Throws `too_large`, `throttled`, `interrupted`. */
  offer(bytes: OutgoingBytes): BinaryRef;
}

/**
 * The outlet to the client that made a request, for its handler: `ctx` is what an SDK passes to handlers,
 * version 1 (`extra`) or 2. `undefined` when nothing was negotiated: answer in base64.
 */
export function outletOf(ctx: object): Outlet | undefined {
  const tag = tagOf(ctx);
  const peer = findPeer(tag?.["connection"]);
  return peer && outlet(peer, tag as unknown as BinaryTerms);
}

/** The outlet to the peer of a connection, for a client; `undefined` when it takes no bytes. */
export function outletTo(peer: BinaryPeer): Outlet | undefined {
  return peer.terms && outlet(peer, peer.terms);
}

/** True when a request asks for bytes beside its response (RFC §4). */
export function asksForBinary(ctx: object): boolean {
  return tagOf(ctx)?.["transferMode"] === "binary";
}

function outlet(peer: BinaryPeer, { maxBinaryBytes, interleave }: BinaryTerms): Outlet {
  return {
    maxBinaryBytes,
    offer(bytes) {
      const { size } = bytes;
      if (size <= maxBinaryBytes)
        return peer.outbox.offer(bytes, { interleave: interleave !== undefined });
      const error = new SluiceError("too_large", "binary: send: larger than the peer accepts", {
        size,
      });
      discardBytes(bytes, error);
      throw error;
    },
  };
}

function tagOf(ctx: object): Record<string, unknown> | undefined {
  const { mcpReq, _meta } = ctx as { mcpReq?: { _meta?: unknown }; _meta?: unknown };
  const meta = mcpReq ? mcpReq._meta : _meta;
  const tag = isObject(meta) ? meta[BINARY_EXTENSION_ID] : undefined;
  return isObject(tag) ? tag : undefined;
}
