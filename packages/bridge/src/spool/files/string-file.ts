import { isUtf8 } from "node:buffer";
import { encodeBase64 } from "@sluice/core/internal";
import { Unescaper } from "../scan/unescape.ts";
import type { SpoolTarget, StringCoding } from "../spooled-string.ts";

/** What is known of a string that came to its end. */
export interface StringFacts {
  readonly bytes: number;
  readonly sha256: string;
  readonly head: string;
  readonly coding: StringCoding;
}

/** A string on its way to a file. */
export interface StringFile {
  readonly bytes: number;
  /** Adds the text between the quotes, as written. Throws `MalformedString` if it is not JSON. */
  write(written: Uint8Array): Promise<void>;
  end(): Promise<StringFacts>;
  publish(name: string): Promise<string>;
  discard(): Promise<void>;
}

/**
 * Begins the file of one string. With `base64` it holds the decoded bytes as long as the text is canonical base64;
 * where that ends, the file is written again as text.
 */
export async function beginStringFile(
  target: SpoolTarget,
  coding: StringCoding,
): Promise<StringFile> {
  const unescaper = new Unescaper();
  // what is no UTF-8 becomes U+FFFD here, as in a parser that decodes the whole text first
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const encoder = new TextEncoder();
  let base64: Base64Decoder | undefined = coding === "base64" ? new Base64Decoder() : undefined;
  let part = await target.create();
  let head = new Uint8Array();

  async function put(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    if (head.length < headBytes)
      head = new Uint8Array(Buffer.concat([head, bytes.subarray(0, headBytes - head.length)]));
    await part.write(bytes);
  }

  async function putText(text: Uint8Array): Promise<void> {
    await put(encoder.encode(decoder.decode(text, { stream: true })));
  }

  /** Writes again as text what was decoded. */
  async function giveUpBase64(rest: Uint8Array): Promise<void> {
    const decoded = part;
    base64 = undefined;
    head = new Uint8Array();
    part = await target.create();
    try {
      for await (const bytes of wholeQuads(decoded.reread()))
        await put(encoder.encode(encodeBase64(bytes)));
    } finally {
      await decoded.discard();
    }
    await putText(rest);
  }

  async function putDecoded(text: Uint8Array): Promise<void> {
    if (base64) {
      const rest = base64.rest();
      const bytes = base64.decode(text);
      if (bytes) return put(bytes);
      await giveUpBase64(rest);
    }
    return putText(text);
  }

  return {
    get bytes() {
      return part.bytes;
    },
    async write(written) {
      await putDecoded(unescaper.decode(written));
    },
    async end() {
      await putDecoded(unescaper.finish());
      if (base64 && base64.rest().length > 0) await giveUpBase64(base64.rest());
      if (!base64) await put(encoder.encode(decoder.decode()));
      const isBase64 = base64 !== undefined;
      return {
        bytes: part.bytes,
        sha256: await part.seal(),
        head: isBase64 ? headOfBytes(head) : headOfText(head),
        coding: isBase64 ? "base64" : "text",
      };
    },
    publish: (name) => part.publish(name),
    discard: () => part.discard(),
  };
}

const headBytes = 1_024;

const hexBytes = 32;

/** The same bytes in pieces whose base64 has no padding, but for the last one. */
async function* wholeQuads(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array = new Uint8Array();
  for await (const chunk of source) {
    const bytes = Buffer.concat([rest, chunk]);
    const end = bytes.length - (bytes.length % 3);
    yield bytes.subarray(0, end);
    rest = bytes.subarray(end);
  }
  yield rest;
}

/** As much of it as is whole characters. */
function headOfText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

/** Text where the bytes look like text, else the first of them in hexadecimal. */
function headOfBytes(bytes: Uint8Array): string {
  const text = headOfText(bytes);
  const isText = isUtf8(bytes.subarray(0, Buffer.byteLength(text))) && !unprintable.test(text);
  if (isText) return text;
  return Buffer.from(bytes.subarray(0, hexBytes)).toString("hex").replace(/../g, "$& ").trimEnd();
}

// oxlint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\ufffd]/;

/**
 * Decodes canonical base64 (RFC 4648 §4) that comes in chunks: padded, without white space, unused bits 0. Encoding
 * what it gave and adding `rest()` gives the text again, exactly.
 */
class Base64Decoder {
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
