import { type BinaryRef, definedMembers } from "@sluice/core/internal";
import { isObject } from "./negotiation.ts";

/** Something in a message that refers to bytes beside it. */
export interface RefHolder {
  /** The content, or contents of a resource, that has the member `binaryRef`. */
  readonly holder: Record<string, unknown>;
  /** `streamId` in lower case. */
  readonly ref: BinaryRef;
}

/**
 * Everything in a message that refers to bytes, in the order of the text, down to 64 levels. Both ends must find
 * the same: an object counts if it has a member `binaryRef` with a `streamId` and a `size`. `isMeant` leaves out
 * references that are just data. Throws a `RangeError` for an id that is not a UUID and for a size that is not a
 * byte count: nothing tells whether bytes follow.
 */
export function findRefs(
  message: unknown,
  isMeant: (ref: Readonly<Record<string, unknown>>) => boolean = () => true,
): RefHolder[] {
  const holders: RefHolder[] = [];
  function visit(value: unknown, depth: number): void {
    if (typeof value !== "object" || value === null || depth > deepest) return;
    if (Array.isArray(value)) {
      for (const member of value) visit(member, depth + 1);
      return;
    }
    const holder = value as Record<string, unknown>;
    const ref = holder["binaryRef"];
    if (isObject(ref) && "streamId" in ref && "size" in ref && isMeant(ref))
      holders.push({ holder, ref: ensureRef(ref) });
    for (const name of Object.keys(holder)) {
      // `_meta` holds copies for receivers that cannot read the literal member
      if (name !== "_meta" && name !== "binaryRef") visit(holder[name], depth + 1);
    }
  }
  visit(message, 0);
  return holders;
}

const deepest = 64;

/** False for a text without any reference, which then needs no search. */
export function mayHoldRefs(text: string): boolean {
  return text.includes('"binaryRef"');
}

function ensureRef({ streamId, size, checksum, interleave }: Record<string, unknown>): BinaryRef {
  if (typeof streamId !== "string" || !uuid.test(streamId))
    throw new RangeError("binary: a streamId is not a UUID");
  if (!Number.isSafeInteger(size) || (size as number) < 0)
    throw new RangeError("binary: a size is not a number of bytes");
  return definedMembers({
    streamId: streamId.toLowerCase(),
    size: size as number,
    checksum: typeof checksum === "string" ? checksumIn(checksum) : undefined,
    interleave: interleave === true ? (true as const) : undefined,
  });
}

/** Keeps no more of a text than a checksum has: a longer one matches no bytes either way. */
function checksumIn(text: string): string {
  return text.length === sha256Length ? text.toLowerCase() : "not a SHA-256";
}

const sha256Length = 64;

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Bytes of a stream id before its data. */
export const streamIdBytes = 16;

/** The 16 bytes of a UUID. */
export function encodeStreamId(streamId: string): Uint8Array {
  const hex = streamId.replaceAll("-", "");
  return Uint8Array.from({ length: streamIdBytes }, (_, i) =>
    Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16),
  );
}

/** The UUID in lower case of 16 bytes. */
export function decodeStreamId(bytes: Uint8Array): string {
  let hex = "";
  for (let i = 0; i < streamIdBytes; i += 1) hex += bytes[i]!.toString(16).padStart(2, "0");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
