/** Bytes as base64 with padding (RFC 4648 §4), as JSON carries them. */
export function encodeBase64(bytes: Uint8Array): string {
  const native = nativeText(bytes, "base64");
  if (native !== undefined) return native;
  const step = 0x8000;
  let binary = "";
  for (let at = 0; at < bytes.length; at += step)
    binary += String.fromCharCode(...bytes.subarray(at, at + step));
  return btoa(binary);
}

/** Many times faster, where the runtime has it; `undefined` elsewhere. */
function nativeText(bytes: Uint8Array, encoding: "base64" | "base64url"): string | undefined {
  const { Buffer: native } = globalThis as { Buffer?: NativeBytes };
  return native?.from(bytes.buffer, bytes.byteOffset, bytes.length).toString(encoding);
}

interface NativeBytes {
  from(
    bytes: ArrayBufferLike,
    offset: number,
    length: number,
  ): { toString(encoding: "base64" | "base64url"): string };
  from(text: string, encoding: "base64"): Uint8Array;
}

/** Bytes of base64 text; padding may be missing. `undefined` for anything else, also white space. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const [, digits = "", padding = ""] = /^([A-Za-z0-9+/]*)(={0,2})$/.exec(text) ?? [];
  if (digits === "" && text !== "") return undefined;
  if (padding !== "" && (digits.length + padding.length) % 4 !== 0) return undefined;
  if (digits.length % 4 === 1) return undefined;
  const { Buffer: native } = globalThis as { Buffer?: NativeBytes };
  // a copy: Node's small ones share memory
  if (native) return new Uint8Array(native.from(digits, "base64"));
  return Uint8Array.from(atob(digits), (character) => character.charCodeAt(0));
}

/**
 * Bytes of base64 as programs write it: in lines, without padding, with the digits of URLs, after `data:…;base64,`.
 * `undefined` for anything else.
 */
export function decodeAnyBase64(text: string): Uint8Array | undefined {
  const digits = text.replace(/^\s*data:[^,]{0,200};base64,/i, "").replaceAll(/[ \t\r\n]+/g, "");
  return decodeBase64(digits.replaceAll("-", "+").replaceAll("_", "/"));
}

/** Bytes as base64url without padding (RFC 4648 §5). */
export function encodeBase64Url(bytes: Uint8Array): string {
  const native = nativeText(bytes, "base64url");
  if (native !== undefined) return native;
  let text = "";
  let bits = 0;
  let window = 0;
  for (const byte of bytes) {
    window = ((window << 8) | byte) & 0xffff;
    for (bits += 8; bits >= 6; bits -= 6) text += urlAlphabet[(window >> (bits - 6)) & 63];
  }
  return bits === 0 ? text : text + urlAlphabet[(window << (6 - bits)) & 63]!;
}

/** Bytes of base64url text in its one canonical spelling; `undefined` for every other spelling. */
export function decodeBase64Url(text: string): Uint8Array | undefined {
  if (text.length % 4 === 1) return undefined;
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let length = 0;
  let bits = 0;
  let window = 0;
  for (let at = 0; at < text.length; at++) {
    const value = urlValues[text.charCodeAt(at)] ?? -1;
    if (value < 0) return undefined;
    window = ((window << 6) | value) & 0xfff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[length++] = window >> bits;
  }
  // the last digit has unused bits: unless they are 0, it is another spelling of the same bytes
  return (window & ((1 << bits) - 1)) === 0 ? bytes : undefined;
}

const urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const urlValues = /* @__PURE__ */ valuesOf(urlAlphabet);

/** Digit of each ASCII character, −1 for any other. */
function valuesOf(digits: string): Int8Array {
  const table = new Int8Array(128).fill(-1);
  for (let value = 0; value < 64; value++) table[digits.charCodeAt(value)] = value;
  return table;
}

/** Bytes as lower-case hex. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes of a text that is nothing but hex digits, two a byte. */
export function bytesOfHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
