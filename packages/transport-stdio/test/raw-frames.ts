import { BINARY_EXTENSION_ID } from "@sluice/core/internal";
import { formatFrame, type FrameKind } from "../src/frames/frame-format.ts";

/** A header as the RFC has it, and the bytes. */
export function whole(streamId: string, bytes: Uint8Array, size: number = bytes.length): Buffer {
  return Buffer.concat([formatFrame({ streamId, count: size }), bytes]);
}

/** A frame of our own. */
export function frame(kind: FrameKind, streamId: string, payload: Uint8Array | number = 0): Buffer {
  if (typeof payload === "number") return formatFrame({ streamId, count: payload }, kind);
  return Buffer.concat([formatFrame({ streamId, count: payload.length }, kind), payload]);
}

/** Capabilities of one that knows the RFC alone. */
export const literal: object = { binaryTransfer: { supported: true, supportedModes: ["stream"] } };

/** Capabilities of one that takes chunks. */
export const interleaving = (windowBytes: number): object => ({
  extensions: { [BINARY_EXTENSION_ID]: { supported: true, interleave: { windowBytes } } },
});
