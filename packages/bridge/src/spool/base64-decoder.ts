import { ByteQueue } from "@sluice/core";

/** Bytes of base64 text that comes in chunks. */
export interface Base64Decoder {
  /** Decodes the next characters; `undefined` when the text is not canonical base64 after all. */
  decode(text: Uint8Array): Uint8Array | undefined;
  /** Characters that are not decoded yet: at most three. */
  rest(): Uint8Array;
}

/**
 * Makes a decoder of canonical base64 (RFC 4648 §4): padded, without white space, unused bits 0. Encoding what it gave
 * and adding `rest()` gives the text again, exactly.
 */
export function createBase64Decoder(): Base64Decoder {
  const carry = new ByteQueue();
  let isPadded = false;

  return {
    decode(text) {
      if (isPadded && text.length > 0) return undefined;
      carry.push(text);
      if (carry.bytes < 4) return new Uint8Array();
      const digits = carry.join();
      const whole = digits.length - (digits.length % 4);
      const decoded = decodeQuads(digits, whole);
      carry.push(digits.subarray(whole));
      if (!decoded) return undefined;
      isPadded = decoded.length < (whole / 4) * 3;
      return isPadded && carry.bytes > 0 ? undefined : decoded;
    },
    rest: () => {
      const rest = carry.join();
      carry.push(rest);
      return rest;
    },
  };
}

/** Bytes of the first `length` digits; padding may end them. */
function decodeQuads(digits: Uint8Array, length: number): Uint8Array | undefined {
  const bytes = new Uint8Array((length / 4) * 3);
  let filled = 0;
  for (let at = 0; at < length; at += 4) {
    const bits =
      (valueOf(digits[at]) << 18) |
      (valueOf(digits[at + 1]) << 12) |
      (valueOf(digits[at + 2]) << 6) |
      valueOf(digits[at + 3]);
    // −1 in any of them
    if (bits < 0) return at + 4 === length ? decodePadded(digits, at, bytes, filled) : undefined;
    bytes[filled++] = bits >> 16;
    bytes[filled++] = bits >> 8;
    bytes[filled++] = bits;
  }
  return bytes;
}

function decodePadded(
  digits: Uint8Array,
  at: number,
  bytes: Uint8Array,
  filled: number,
): Uint8Array | undefined {
  const isOneByte = digits[at + 2] === padding;
  if (digits[at + 3] !== padding) return undefined;
  const [first, second] = [valueOf(digits[at]), valueOf(digits[at + 1])];
  const third = isOneByte ? 0 : valueOf(digits[at + 2]);
  const bits = (first << 18) | (second << 12) | (third << 6);
  if (bits < 0 || (bits & (isOneByte ? 0xffff : 0xff)) !== 0) return undefined;
  bytes[filled] = bits >> 16;
  if (!isOneByte) bytes[filled + 1] = bits >> 8;
  return bytes.subarray(0, filled + (isOneByte ? 1 : 2));
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
