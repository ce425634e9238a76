import { decodeBase64Url, encodeBase64Url } from "../bytes/base64.ts";
import { createClaimsCipher, type SealerOptions } from "./claims-cipher.ts";
import { claimsLengths } from "./claims-layout.ts";
import { idLength, type IssuedToken, type TokenClaims, type OpenedToken } from "./token-claims.ts";
import type { TokenPurpose } from "./token-lifetime.ts";

/** Makes and opens sealed tokens for one server. */
export interface Sealer {
  /**
   * Seals claims into a token. Throws a `RangeError` for a time out of bounds, a `TypeError`
   * for a malformed key, principal or etag.
   */
  seal(purpose: TokenPurpose, claims: TokenClaims): IssuedToken;
  /**
   * Opens a token. Throws `expired` when a genuine token has expired, `not_found` for every other
   * fault. `now` is unix milliseconds. Default: `Date.now()`.
   */
  unseal(purpose: TokenPurpose, token: string, options?: { readonly now?: number }): OpenedToken;
}

/**
 * Makes a sealer. Its tokens carry their claims, and only a holder of the keys reads, alters or makes one
 * (XChaCha20-Poly1305 under a key per purpose, derived by HKDF-SHA256). A token is
 * `v1.<kid>.<base64url of nonce, cipher text and tag>`; the key id, the purpose and the audience
 * are authenticated with it.
 */
export function createSealer(options: SealerOptions): Sealer {
  const cipher = createClaimsCipher({ ...options, header: "sluice.v1", keyInfo: "sluice/v1/" });
  return {
    seal(purpose, claims) {
      const random = crypto.getRandomValues(new Uint8Array(nonceLength + idLength));
      const nonce = random.subarray(0, nonceLength);
      const id = random.subarray(nonceLength);
      const { kid, box, ...times } = cipher.encrypt(purpose, claims, { id, nonce });
      const body = new Uint8Array(nonceLength + box.length);
      body.set(nonce);
      body.set(box, nonceLength);
      return { token: `v1.${kid}.${encodeBase64Url(body)}`, id: encodeBase64Url(id), ...times };
    },
    unseal: (purpose, token, { now = Date.now() } = {}) =>
      cipher.decrypt(purpose, parseSealed(token), now),
  };
}

/** The parts of a sealed token; `undefined` when it is not spelled like one. */
function parseSealed(token: string) {
  // the length comes first: nothing long is ever matched, decoded or hashed
  if (typeof token !== "string" || !tokenLengths.has(token.length)) return undefined;
  const [, kid = "", encoded = ""] = tokenGrammar.exec(token) ?? [];
  const body = decodeBase64Url(encoded);
  return body && { kid, nonce: body.subarray(0, nonceLength), box: body.subarray(nonceLength) };
}

const nonceLength = 24;
const tagLength = 16;
const tokenGrammar = /^v1\.([a-z0-9]{2})\.([A-Za-z0-9_-]+)$/;
const tokenLengths: ReadonlySet<number> = new Set(
  claimsLengths.map(
    (length) => "v1.kk.".length + Math.ceil(((nonceLength + length + tagLength) * 4) / 3),
  ),
);
