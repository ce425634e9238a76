/** Bytes of base64 text that comes in chunks. */
export interface Base64Decoder {
  /**
   * Decodes the next characters; `undefined` when the text is not canonical base64 after all. The bytes are good until
   * the next call.
   */
  decode(text: Uint8Array): Uint8Array | undefined;
  /** Characters that are not decoded yet: at most three. */
  rest(): Uint8Array;
}

/**
 * Makes a decoder of canonical base64 (RFC 4648 §4): padded, without white space, unused bits 0. Encoding what it gave
 * and adding `rest()` gives the text again, exactly.
 */
export function createBase64Decoder(): Base64Decoder {
  let carry: Uint8Array = new Uint8Array();
  let bytes: Uint8Array = new Uint8Array();
  let isPadded = false;

  /** Adds the bytes of whole quads behind the first `filled`, and tells how many there are then. */
  function add(quads: Uint8Array, filled: number): number | undefined {
    if (isPadded && quads.length > 0) return undefined;
    const end = decodeQuads(quads, bytes, filled);
    isPadded ||= end !== undefined && end - filled < (quads.length / 4) * 3;
    return end;
  }

  return {
    decode(text) {
      const head = carry.length === 0 ? 0 : Math.min(4 - carry.length, text.length);
      const quad = Uint8Array.of(...carry, ...text.subarray(0, head));
      const end = text.length - ((text.length - head) % 4);
      const isWhole = quad.length === 4 || quad.length === 0;
      carry = isWhole ? text.slice(end) : quad;
      const most = (text.length / 4 + 1) * 3;
      if (bytes.length < most) bytes = new Uint8Array(most);
      const first = add(isWhole ? quad : quad.subarray(0, 0), 0);
      const filled = first === undefined ? undefined : add(text.subarray(head, end), first);
      if (filled === undefined || (isPadded && carry.length > 0)) return undefined;
      return bytes.subarray(0, filled);
    },
    rest: () => carry,
  };
}

/** Decodes whole quads, of which padding may end the last; how many bytes `bytes` has then. */
function decodeQuads(digits: Uint8Array, bytes: Uint8Array, from: number): number | undefined {
  let filled = from;
  for (let at = 0; at < digits.length; at += 4) {
    const bits =
      (valueOf(digits[at]) << 18) |
      (valueOf(digits[at + 1]) << 12) |
      (valueOf(digits[at + 2]) << 6) |
      valueOf(digits[at + 3]);
    // −1 in any of them
    if (bits < 0)
      return at + 4 === digits.length ? decodePadded(digits, at, bytes, filled) : undefined;
    bytes[filled++] = bits >> 16;
    bytes[filled++] = bits >> 8;
    bytes[filled++] = bits;
  }
  return filled;
}

function decodePadded(
  digits: Uint8Array,
  at: number,
  bytes: Uint8Array,
  filled: number,
): number | undefined {
  const isOneByte = digits[at + 2] === padding;
  if (digits[at + 3] !== padding) return undefined;
  const third = isOneByte ? 0 : valueOf(digits[at + 2]);
  const bits = (valueOf(digits[at]) << 18) | (valueOf(digits[at + 1]) << 12) | (third << 6);
  if (bits < 0 || (bits & (isOneByte ? 0xffff : 0xff)) !== 0) return undefined;
  bytes[filled] = bits >> 16;
  if (isOneByte) return filled + 1;
  bytes[filled + 1] = bits >> 8;
  return filled + 2;
}

const padding = 0x3d;
const values = new Int8Array(256).fill(-1);
for (const [value, digit] of Array.from(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
).entries())
  values[digit.charCodeAt(0)] = value;

function valueOf(digit: number | undefined): number {
  return values[digit as number] as number;
}
