import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { decodeBase64Url, encodeBase64Url } from "../bytes/base64.ts";
import { hmacSha256 } from "../bytes/hmac-sha256.ts";
import { encodeFields, isText } from "../bytes/length-prefix.ts";
import { SluiceError } from "../errors/error.ts";
import type { KeyRing } from "./key-ring.ts";

interface SealTerms {
  /** One key is derived for each purpose, so that none opens another's. */
  readonly purpose: string;
  /** Authenticated, and not in the sealed text: must be the same to open it. By `encodeFields`. */
  readonly context: Uint8Array | undefined;
  /** Part of the key: the ring by itself does not open the text. */
  readonly secret?: string | undefined;
}

/** Bytes of the nonce in front of the cipher text. */
export const nonceLength = 24;
const tagLength = 16;
const grammar = /^v1\.([a-z0-9]{2})\.([A-Za-z0-9_-]+)$/;

/** Characters of a text with `length` sealed bytes. */
export function sealedLength(length: number): number {
  return "v1.kk.".length + Math.ceil(((nonceLength + length + tagLength) * 4) / 3);
}

/**
 * Seals bytes under the current key (XChaCha20-Poly1305 under a key for each purpose, by HKDF-SHA256):
 * `v1.<kid>.<base64url of nonce, cipher text and tag>`. The key id, the purpose and the context are authenticated with
 * them. `undefined` without a context. `nonce` is 24 random bytes.
 */
export function sealBytes(
  keys: KeyRing,
  bytes: Uint8Array,
  terms: SealTerms,
  nonce: Uint8Array,
): string | undefined {
  const kid = keys.current;
  const box = cipherOf(keys, kid, nonce, terms)?.encrypt(bytes);
  if (!box) return undefined;
  const body = new Uint8Array(nonceLength + box.length);
  body.set(nonce);
  body.set(box, nonceLength);
  return `v1.${kid}.${encodeBase64Url(body)}`;
}

/** Opens a sealed text, whose length the caller has checked; `undefined` unless it was made with these keys and terms. */
export function openBytes(
  keys: KeyRing,
  sealed: string,
  terms: SealTerms,
): { readonly kid: string; readonly bytes: Uint8Array } | undefined {
  const [, kid = "", encoded = ""] = grammar.exec(sealed) ?? [];
  const body = decodeBase64Url(encoded);
  if (!body || body.length < nonceLength + tagLength) return undefined;
  try {
    const cipher = cipherOf(keys, kid, body.subarray(0, nonceLength), terms);
    return cipher && { kid, bytes: cipher.decrypt(body.subarray(nonceLength)) };
  } catch {
    // altered, or made for another purpose, context or secret
    return undefined;
  }
}

/** `undefined` for a key that is not in the ring, and without a context. */
function cipherOf(
  keys: KeyRing,
  kid: string,
  nonce: Uint8Array,
  { purpose, context, secret }: SealTerms,
) {
  const name = secret === undefined ? purpose : `stored/${purpose}`;
  const key = keys.derive(kid, `sluice/v1/${name}`);
  if (!key || !context) return undefined;
  const label = labelOf(kid, name);
  const header = new Uint8Array(label.length + context.length);
  header.set(label);
  header.set(context, label.length);
  const whole = secret === undefined ? key : hmacSha256(key, new TextEncoder().encode(secret));
  return xchacha20poly1305(whole, nonce, header);
}

/** Start of the header, before the context. There are as many as keys and purposes. */
const labels = new Map<string, Uint8Array>();

function labelOf(kid: string, name: string): Uint8Array {
  const id = `${kid} ${name}`;
  const label = labels.get(id) ?? encodeFields("sluice.v1", kid, name)!;
  labels.set(id, label);
  return label;
}

/** Options of {@link createTextSealer}. */
export interface TextSealerOptions {
  readonly keys: KeyRing;
  /** Purpose of the text: one key is derived for each purpose, so that none opens another's. */
  readonly purpose: string;
  /** Longest sealed text that is looked at, in characters. Default: 16,384. */
  readonly maxLength?: number;
}

/** Seals text that another party keeps and gives back. */
export interface TextSealer {
  /**
   * `context` names the purpose and the holder; it is not in the result, and must be the same in `unseal`. So must
   * `secret`, without which not even a holder of the keys reads the text.
   */
  seal(text: string, context: readonly string[], secret?: string): string;
  /**
   * The text; `invalid_argument` unless it was sealed by these keys for this purpose, context and secret.
   */
  unseal(sealed: string, context: readonly string[], secret?: string): string;
}

/**
 * Makes a sealer for text such as list cursors: only a holder of the keys reads, alters or makes it
 * (XChaCha20-Poly1305 under a key derived by HKDF-SHA256). Its length is rounded up, because
 * the length of a name can tell the name. It does not expire: the caller checks permission again.
 */
export function createTextSealer(options: TextSealerOptions): TextSealer {
  const { keys, maxLength = 16_384 } = options;
  const purpose = `text/${options.purpose}`;
  return {
    seal(text, context, secret) {
      const nonce = crypto.getRandomValues(new Uint8Array(nonceLength));
      const terms = { purpose, context: encodeFields(...context), secret };
      const sealed = isText(text) ? sealBytes(keys, pad(text), terms, nonce) : undefined;
      if (sealed === undefined)
        throw new TypeError("sealed text: text and context have no lone surrogates");
      return sealed;
    },
    unseal(sealed, context, secret) {
      // the length comes first: nothing long is ever matched, decoded or hashed
      const fits = typeof sealed === "string" && sealed.length <= maxLength;
      const terms = { purpose, context: encodeFields(...context), secret };
      const opened = fits ? openBytes(keys, sealed, terms) : undefined;
      if (opened) return unpad(opened.bytes);
      throw new SluiceError("invalid_argument", `${options.purpose}: it is not one of ours`);
    },
  };
}

const blockLength = 128;

/** The text after its length in four bytes, padded with zeros to whole blocks. */
function pad(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array(Math.ceil((bytes.length + 4) / blockLength) * blockLength);
  new DataView(padded.buffer).setUint32(0, bytes.length);
  padded.set(bytes, 4);
  return padded;
}

function unpad(padded: Uint8Array): string {
  const length = new DataView(padded.buffer, padded.byteOffset).getUint32(0);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(padded.subarray(4, 4 + length));
}
