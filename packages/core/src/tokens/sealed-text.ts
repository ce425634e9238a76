import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { decodeBase64Url, encodeBase64Url } from "../bytes/base64.ts";
import { SluiceError } from "../errors/error.ts";
import type { KeyRing } from "./key-ring.ts";
import { encodeFields, isText } from "../bytes/length-prefix.ts";

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
  /** `context` names the purpose and the holder; it is not in the result, and must be the same in `unseal`. */
  seal(text: string, context: readonly string[]): string;
  /**
   * The text; `invalid_argument` unless it was sealed by these keys for this purpose and context.
   */
  unseal(sealed: string, context: readonly string[]): string;
}

/**
 * Makes a sealer for text such as list cursors: only a holder of the keys reads, alters or makes it
 * (XChaCha20-Poly1305 under a key derived by HKDF-SHA256). Its length is rounded up, because
 * the length of a name can tell the name. It does not expire: the caller checks permission again.
 */
export function createTextSealer(options: TextSealerOptions): TextSealer {
  const { keys, purpose, maxLength = 16_384 } = options;

  function cipher(kid: string, nonce: Uint8Array, context: readonly string[]) {
    const key = keys.derive(kid, `sluice/v1/text/${purpose}`);
    const header = encodeFields("sluice.v1 text", kid, purpose, ...context);
    return key && header && xchacha20poly1305(key, nonce, header);
  }

  return {
    seal(text, context) {
      const kid = keys.current;
      const nonce = crypto.getRandomValues(new Uint8Array(nonceLength));
      const box = isText(text) ? cipher(kid, nonce, context)?.encrypt(pad(text)) : undefined;
      if (!box) throw new TypeError("sealed text: text and context have no lone surrogates");
      const body = new Uint8Array(nonceLength + box.length);
      body.set(nonce);
      body.set(box, nonceLength);
      return `${kid}.${encodeBase64Url(body)}`;
    },

    unseal(sealed, context) {
      const fits = typeof sealed === "string" && sealed.length <= maxLength;
      const [, kid = "", encoded = ""] = (fits && grammar.exec(sealed)) || [];
      const body = decodeBase64Url(encoded);
      if (!body || body.length <= nonceLength) throw invalid(purpose);
      try {
        const opened = cipher(kid, body.subarray(0, nonceLength), context);
        if (opened) return unpad(opened.decrypt(body.subarray(nonceLength)));
      } catch {
        // altered, or of other keys, another purpose or another context
      }
      throw invalid(purpose);
    },
  };
}

const nonceLength = 24;
const blockLength = 128;
const grammar = /^([a-z0-9]{2})\.([A-Za-z0-9_-]+)$/;

/** The text behind its length in four bytes, with zeros up to whole blocks. */
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

function invalid(purpose: string): SluiceError {
  return new SluiceError("invalid_argument", `${purpose}: it is not one of ours`);
}
