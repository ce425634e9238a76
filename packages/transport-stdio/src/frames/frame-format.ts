import { SluiceError } from "@sluice/core";
import { decodeStreamId, encodeStreamId, streamIdBytes } from "@sluice/binary-transfer/internal";

/**
 * The frames between messages when chunks are interleaved: one of these bytes, then a header. None
 * of them can begin a JSON text, so the first byte tells a frame from a message.
 */
const frameKinds = {
  /** Bytes of a stream follow; the header's number counts them. */
  data: 1,
  /** The stream is complete. */
  end: 2,
  /** The sender gives the stream up. */
  abort: 3,
  /** The receiver takes as many bytes more as the header's number says. */
  credit: 4,
  /** The receiver wants no more of the stream. */
  stop: 5,
} as const;

export type FrameKind = keyof typeof frameKinds;

const names = new Map<number, FrameKind>(
  Object.entries(frameKinds).map(([name, byte]) => [byte, name as FrameKind]),
);

/** Stream id and number: the header of the RFC. */
export const headerBytes: number = streamIdBytes + 8;

/** A parsed header. */
export interface FrameHeader {
  readonly streamId: string;
  /** Of bytes. */
  readonly count: number;
}

/** The kind of frame that a byte begins; `undefined` for that of a message. */
export function frameKindOf(byte: number): FrameKind | undefined {
  return names.get(byte);
}

/** Reads a header. Throws `protocol` for a number beyond 2^53 - 1. */
export function readHeader(header: Buffer): FrameHeader {
  const count = header.readBigUInt64BE(streamIdBytes);
  if (count > Number.MAX_SAFE_INTEGER)
    throw new SluiceError("protocol", `stdio: a frame of an impossible size: ${count} bytes`);
  return { streamId: decodeStreamId(header), count: Number(count) };
}

/** A header in its own buffer, after a kind if there is one. */
export function formatFrame({ streamId, count }: FrameHeader, kind?: FrameKind): Buffer {
  const at = kind === undefined ? 0 : 1;
  const frame = Buffer.alloc(at + headerBytes);
  if (kind !== undefined) frame[0] = frameKinds[kind];
  frame.set(encodeStreamId(streamId), at);
  frame.writeBigUInt64BE(BigInt(count), at + streamIdBytes);
  return frame;
}
