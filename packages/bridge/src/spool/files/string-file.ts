import { isUtf8 } from "node:buffer";
import { encodeBase64 } from "@sluice/core/internal";
import { Base64Decoder, LooseBase64Decoder } from "./base64-decoder.ts";
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
 * where that ends, the file is written again as text. With `isLoose` it is then read for base64 in other spellings.
 */
export async function beginStringFile(
  target: SpoolTarget,
  coding: StringCoding,
  isLoose = false,
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

  /** Writes again as bytes what is base64 in another spelling. False for any other text, which stays. */
  async function decodeLoosely(): Promise<boolean> {
    const [text, textHead] = [part, head];
    part = await target.create();
    head = new Uint8Array();
    let isBase64 = false;
    try {
      isBase64 = await putLoose(text.reread());
    } finally {
      const unused = isBase64 ? text : part;
      if (!isBase64) [part, head] = [text, textHead];
      await unused.discard();
    }
    return isBase64;
  }

  async function putLoose(source: AsyncIterable<Uint8Array>): Promise<boolean> {
    const loose = new LooseBase64Decoder();
    const characters = new TextDecoder();
    for await (const chunk of source) {
      const bytes = loose.decode(characters.decode(chunk, { stream: true }));
      if (!bytes) return false;
      await put(bytes);
    }
    const last = loose.end();
    if (last) await put(last);
    return last !== undefined;
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
      const mayBeLoose = isLoose && coding === "base64" && !base64;
      const isBase64 = base64 !== undefined || (mayBeLoose && (await decodeLoosely()));
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
