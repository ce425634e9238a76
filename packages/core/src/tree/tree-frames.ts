import type { TreeEnd, TreeHead, TreeRefusal, TreeTrailer } from "../wire/tree.ts";

/** Bytes of the length before the JSON of a frame. */
export const lengthBytes = 4;

/** Maximum bytes of the JSON of a frame. */
export const maxJsonBytes = 2_048;

/** A longer tag is left out of a head: it would not fit, and no client depends on it. */
const maxTagLength = 512;

/** The bytes of a frame without content: its length as a 32-bit number, big-endian, and its JSON. */
export function formatTreeFrame(
  frame: TreeHead | TreeTrailer | TreeRefusal | TreeEnd,
): Uint8Array<ArrayBuffer> {
  const json = encoder.encode(JSON.stringify(frame, withoutLongTag));
  const bytes = new Uint8Array(lengthBytes + json.length);
  new DataView(bytes.buffer).setUint32(0, json.length);
  bytes.set(json, lengthBytes);
  return bytes;
}

const encoder = new TextEncoder();

function withoutLongTag(name: string, value: unknown): unknown {
  return name === "etag" && (value as string).length > maxTagLength ? undefined : value;
}
