import { SluiceError } from "@sluice/core";
import {
  BINARY_EXTENSION_ID,
  type BinaryTransferContent,
  createSha256,
  definedMembers,
  discardSource,
  encodeBase64,
} from "@sluice/core/internal";
import type { BinaryReads } from "@sluice/server";
import { findRefs } from "../peer/binary-refs.ts";
import { isObject } from "../peer/negotiation.ts";
import { discardBytes, type SizedSource } from "../peer/outbox.ts";
import { asksForBinary, type Outlet, outletOf } from "../peer/outlet.ts";
import type { Sending } from "../peer/peer.ts";
import { bodyOf } from "./open-binary.ts";

/** Content whose bytes are at hand. */
export interface BinaryContentOptions {
  /** `blob` becomes an embedded resource: MCP has no content of that name. */
  readonly type: BinaryTransferContent["type"];
  readonly mimeType: string;
  /** The bytes themselves, or where they come from: then with `size`. */
  readonly bytes: Uint8Array | SizedSource;
  /** With `blob`: URI of the resource. Default: a new URN. */
  readonly uri?: string;
  /**
   * Maximum bytes that go into the JSON as base64, if they cannot go beside it; more is
   * `too_large`. Default 8 MiB.
   */
  readonly maxBase64Bytes?: number;
}

/** Content as MCP has it, with an empty base64 member if the bytes go beside the message. */
export type BinaryContent =
  | {
      readonly type: "image" | "audio";
      readonly mimeType: string;
      readonly data: string;
      readonly _meta?: Record<string, unknown>;
    }
  | {
      readonly type: "resource";
      readonly resource: {
        readonly uri: string;
        readonly mimeType: string;
        readonly blob: string;
        readonly _meta?: Record<string, unknown>;
      };
    };

/**
 * Content for a tool's result or a prompt: bytes beside the message if that was negotiated with the
 * caller, base64 inside it everywhere else. `to` is the `ctx` of the handler (`extra` in SDK version
 * 1), or an {@link Outlet}. The source is used or discarded, whatever happens.
 *
 * Throws `too_large` for bytes that neither way takes, `throttled` for too many streams in progress,
 * and errors of the source.
 */
export async function binaryContent(
  to: object | Outlet,
  options: BinaryContentOptions,
): Promise<BinaryContent> {
  const { type, mimeType, bytes, uri, maxBase64Bytes = 8 * 2 ** 20 } = options;
  const sized = bytes instanceof Uint8Array ? sizedOf(bytes) : bytes;
  const outlet = "offer" in to ? to : outletOf(to);
  if (outlet && sized.size <= outlet.maxBinaryBytes) {
    const binaryRef = outlet.offer(sized);
    const _meta = { [BINARY_EXTENSION_ID]: { binaryRef } };
    if (type !== "blob") return { type, mimeType, data: "", _meta };
    const resource = { uri: uri ?? `urn:uuid:${binaryRef.streamId}`, mimeType, blob: "", _meta };
    return { type: "resource", resource };
  }
  const text = await base64Of(sized, maxBase64Bytes);
  if (type !== "blob") return { type, mimeType, data: text };
  const resource = { uri: uri ?? `urn:uuid:${crypto.randomUUID()}`, mimeType, blob: text };
  return { type: "resource", resource };
}

function sizedOf(bytes: Uint8Array): SizedSource {
  const hash = createSha256();
  hash.update(bytes);
  const source = { body: bodyOf(bytes), bytes };
  return { source, size: bytes.length, checksum: hash.digest() };
}

/** The bytes of a source as base64. Throws `too_large` beyond `maxBytes`, and what the source errors with. */
async function base64Of({ source, size }: SizedSource, maxBytes: number): Promise<string> {
  if (size > maxBytes) {
    const error = new SluiceError("too_large", `binary: content: over ${maxBytes} bytes`, { size });
    await discardSource(source, error);
    throw error;
  }
  const bytes = source.bytes ?? new Uint8Array(await new Response(source.body).arrayBuffer());
  if (bytes.length !== size)
    throw new SluiceError("interrupted", `binary: content: ${bytes.length} of ${size} bytes came`);
  return encodeBase64(bytes);
}

/**
 * Makes a Sluice answer `resources/read` with `transferMode: "binary"` by bytes beside the message, where
 * that was negotiated: pass it as `binary` to `sluice.attach`. A resource over the limit, of unknown
 * size, or asked for in parts stays inside the JSON, with the limits that hold there.
 */
export const binaryReads: BinaryReads = {
  maxBytes: (ctx) => (asksForBinary(ctx) ? outletOf(ctx)?.maxBinaryBytes : undefined),
  deliver(ctx, { transfer, size, checksum }) {
    const { source } = transfer;
    const end = (result: Parameters<typeof transfer.end>[0]): void => transfer.end(result);
    const bytes = definedMembers({ source, size, checksum, end });
    const outlet = outletOf(ctx);
    if (!outlet) {
      // the connection went away since maxBytes
      const goneError = new SluiceError("interrupted", "binary: read: the connection is gone");
      discardBytes(bytes, goneError);
      throw goneError;
    }
    const binaryRef = outlet.offer(bytes);
    // an SDK takes contents without blob or text for invalid, and drops members it does not know
    return { blob: "", _meta: { [BINARY_EXTENSION_ID]: { binaryRef } } };
  },
};

/**
 * Puts the bytes of a message into its JSON after all, as base64: for a transport that finds out too late that
 * they cannot go beside it. Throws `too_large` for more than `maxBytes`, and errors of a source; every stream
 * has ended then.
 */
export async function inlineMessage({ text, streams }: Sending, maxBytes: number): Promise<string> {
  const message: unknown = JSON.parse(text);
  const holders = new Map(findRefs(message).map(({ holder, ref }) => [ref.streamId, holder]));
  let remainingBytes = maxBytes;
  let failure: { readonly error: unknown } | undefined;
  for (const stream of streams) {
    const { ref, source } = stream;
    try {
      const data = await base64Of({ source, size: ref.size }, failure ? -1 : remainingBytes);
      remainingBytes -= ref.size;
      stream.end({ outcome: "complete", bytes: ref.size });
      put(holders.get(ref.streamId)!, data);
    } catch (error) {
      failure ??= { error };
      const outcome = SluiceError.is(error) && error.code === "too_large" ? "aborted" : "failed";
      stream.end({ outcome, bytes: 0, error });
    }
  }
  if (failure) throw failure.error;
  return JSON.stringify(message);
}

function put(holder: Record<string, unknown>, data: string): void {
  delete holder["binaryRef"];
  delete holder["transferMode"];
  const meta = holder["_meta"];
  if (isObject(meta)) {
    const { [BINARY_EXTENSION_ID]: _ours, ...rest } = meta;
    holder["_meta"] = rest;
  }
  holder[holder["type"] === undefined ? "blob" : "data"] = data;
}
