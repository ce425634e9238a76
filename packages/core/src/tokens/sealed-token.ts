import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { decodeBase64Url, encodeBase64Url } from "../bytes/base64.ts";
import type { KeyRing } from "./key-ring.ts";
import { encodeFields } from "../bytes/length-prefix.ts";
import { claimsLengths } from "./token-claims.ts";
import {
  canonicalAudience,
  idLength,
  invalidToken,
  readContents,
  writeContents,
  type SealedToken,
  type SealTerms,
  type UnsealedToken,
} from "./token-contents.ts";
import { ensurePurpose, ensureTime, type TokenPurpose } from "./token-lifetime.ts";

/** Options of {@link createSealer}. */
export interface SealerOptions {
  readonly keys: KeyRing;
  /** Absolute URL of the server the tokens are for, from configuration, never from a request. */
  readonly audience: string;
}

/** Makes and opens sealed tokens for one server. */
export interface Sealer {
  /**
   * Seals a permission into a token. Throws a `RangeError` for a time out of bounds, a `TypeError`
   * for a malformed handle, principal or revision.
   */
  seal(purpose: TokenPurpose, terms: SealTerms): SealedToken;
  /**
   * Opens a token. Throws `expired` when it is genuine and its time is over, `not_found` for
   * everything else that is wrong with it. `now` is unix milliseconds, default `Date.now()`.
   */
  unseal(purpose: TokenPurpose, token: string, options?: { readonly now?: number }): UnsealedToken;
}

/**
 * Makes a sealer: tokens that carry a permission and that nobody else can read, alter or make
 * (XChaCha20-Poly1305 under a key per purpose, derived by HKDF-SHA256). A token is
 * `v1.<kid>.<base64url of nonce, cipher text and tag>`; the key id, the purpose and the audience
 * are authenticated with it.
 */
export function createSealer(options: SealerOptions): Sealer {
  const { keys } = options;
  const audience = canonicalAudience(options.audience);

  const headers = new Map<string, Uint8Array>();

  function cipher(key: Uint8Array, nonce: Uint8Array, kid: string, purpose: TokenPurpose) {
    const name = `${kid} ${purpose}`;
    const header = headers.get(name) ?? encodeFields("sluice.v1", kid, purpose, audience)!;
    headers.set(name, header);
    return xchacha20poly1305(key, nonce, header);
  }

  return {
    seal(purpose, terms) {
      ensurePurpose(purpose);
      const random = crypto.getRandomValues(new Uint8Array(nonceLength + idLength));
      const nonce = random.subarray(0, nonceLength);
      const id = random.subarray(nonceLength);
      const { kid, bytes, ...times } = writeContents(keys, purpose, terms, id);
      const key = keys.derive(kid, `sluice/v1/${purpose}`)!;
      const box = cipher(key, nonce, kid, purpose).encrypt(bytes);
      const body = new Uint8Array(nonceLength + box.length);
      body.set(nonce);
      body.set(box, nonceLength);
      return { token: `v1.${kid}.${encodeBase64Url(body)}`, id: encodeBase64Url(id), ...times };
    },

    unseal(purpose, token, { now = Date.now() } = {}) {
      ensurePurpose(purpose);
      ensureTime(now);
      // the length comes first: nothing long is ever matched, decoded or hashed
      if (typeof token !== "string" || !tokenLengths.has(token.length)) throw invalidToken();
      const [, kid = "", encoded = ""] = tokenGrammar.exec(token) ?? [];
      const key = keys.derive(kid, `sluice/v1/${purpose}`);
      const body = key && decodeBase64Url(encoded);
      if (!key || !body) throw invalidToken();
      const nonce = body.subarray(0, nonceLength);
      let plain: Uint8Array;
      try {
        plain = cipher(key, nonce, kid, purpose).decrypt(body.subarray(nonceLength));
      } catch {
        throw invalidToken();
      }
      return readContents(keys, purpose, { kid, bytes: plain, now });
    },
  };
}

const nonceLength = 24;
const tagLength = 16;
const tokenGrammar = /^v1\.([a-z0-9]{2})\.([A-Za-z0-9_-]+)$/;
const tokenLengths: ReadonlySet<number> = new Set(
  claimsLengths.map(
    (length) => "v1.kk.".length + Math.ceil(((nonceLength + length + tagLength) * 4) / 3),
  ),
);
