/**
 * Decodes canonical base64 (RFC 4648 §4) that comes in chunks: padded, without white space, unused bits 0. Encoding
 * what it gave and adding `rest()` gives the text again, exactly.
 */
export class Base64Decoder {
  #carry: Uint8Array = new Uint8Array();
  #bytes: Uint8Array = new Uint8Array();
  #isPadded = false;

  /**
   * Decodes the next characters; `undefined` when the text is not canonical base64 after all. The bytes are good until
   * the next call.
   */
  decode(text: Uint8Array): Uint8Array | undefined {
    const head = this.#carry.length === 0 ? 0 : Math.min(4 - this.#carry.length, text.length);
    const quad = Uint8Array.of(...this.#carry, ...text.subarray(0, head));
    const end = text.length - ((text.length - head) % 4);
    const isWhole = quad.length === 4 || quad.length === 0;
    this.#carry = isWhole ? text.slice(end) : quad;
    const most = (text.length / 4 + 1) * 3;
    if (this.#bytes.length < most) this.#bytes = new Uint8Array(most);
    const first = this.#add(isWhole ? quad : quad.subarray(0, 0), 0);
    const filledBytes =
      first === undefined ? undefined : this.#add(text.subarray(head, end), first);
    if (filledBytes === undefined || (this.#isPadded && this.#carry.length > 0)) return undefined;
    return this.#bytes.subarray(0, filledBytes);
  }

  /** Characters that are not decoded yet: at most three. */
  rest(): Uint8Array {
    return this.#carry;
  }

  /** Adds the bytes of whole quads behind the first `filled`, and tells how many there are then. */
  #add(quads: Uint8Array, filled: number): number | undefined {
    if (this.#isPadded && quads.length > 0) return undefined;
    const end = decodeQuads(quads, this.#bytes, filled);
    this.#isPadded ||= end !== undefined && end - filled < (quads.length / 4) * 3;
    return end;
  }
}

/**
 * Decodes base64 as programs write it: in lines, without padding, with the digits of URLs, after `data:…;base64,`. The text
 * comes in chunks of whole characters.
 */
export class LooseBase64Decoder {
  readonly #inner = new Base64Decoder();
  /** The beginning, until it is known whether it is that of a `data:` URL. */
  #start: string | undefined = "";

  /** Decodes the next characters; `undefined` when the text is not base64. The bytes are good until the next call. */
  decode(text: string): Uint8Array | undefined {
    if (this.#start === undefined) return this.#add(text);
    this.#start += text;
    const isOpen = this.#start.length < longestStart && !this.#start.includes(",");
    if (isOpen && dataPattern.test(this.#start)) return new Uint8Array();
    const rest = this.#start.replace(startPattern, "");
    this.#start = undefined;
    return this.#add(rest);
  }

  /** What is left at the end of the text; `undefined` when it is not base64. */
  end(): Uint8Array | undefined {
    // nothing but the beginning of a URL
    if (this.#start !== undefined && this.#start !== "") return undefined;
    const missing = (4 - this.#inner.rest().length) % 4;
    return missing > 2 ? undefined : this.#inner.decode(Buffer.from("=".repeat(missing)));
  }

  #add(text: string): Uint8Array | undefined {
    const digits = text
      .replaceAll(/[ \t\r\n]+/g, "")
      .replaceAll("-", "+")
      .replaceAll("_", "/");
    return this.#inner.decode(Buffer.from(digits, "latin1"));
  }
}

const longestStart = 200;
const dataPattern = /^\s*(?:d(?:a(?:t(?:a(?::|$)|$)|$)|$)|$)/i;
const startPattern = /^\s*data:[^,]*;base64,/i;

/** Decodes whole quads, of which padding may end the last; how many bytes `bytes` has then. */
function decodeQuads(digits: Uint8Array, bytes: Uint8Array, from: number): number | undefined {
  let filledBytes = from;
  for (let at = 0; at < digits.length; at += 4) {
    const bits =
      (valueOf(digits[at]) << 18) |
      (valueOf(digits[at + 1]) << 12) |
      (valueOf(digits[at + 2]) << 6) |
      valueOf(digits[at + 3]);
    // −1 in any of them
    if (bits < 0)
      return at + 4 === digits.length ? decodePadded(digits, at, bytes, filledBytes) : undefined;
    bytes[filledBytes++] = bits >> 16;
    bytes[filledBytes++] = bits >> 8;
    bytes[filledBytes++] = bits;
  }
  return filledBytes;
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
