import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { encodeFields } from "../bytes/length-prefix.ts";
import type { KeyRing } from "./key-ring.ts";
import {
  canonicalAudience,
  invalidToken,
  readContents,
  writeContents,
  type SealTerms,
  type UnsealedToken,
} from "./token-contents.ts";
import { ensurePurpose, ensureTime, type TokenPurpose } from "./token-lifetime.ts";

/** What every form of token needs to know of its server. */
export interface SealerOptions {
  readonly keys: KeyRing;
  /** Absolute URL of the server the tokens are for, from configuration, never from a request. */
  readonly audience: string;
}

/** Options of {@link createClaimsCipher}: the labels keep one form of token apart from every other. */
export interface ClaimsCipherOptions extends SealerOptions {
  /** First field of the header that is authenticated with the claims. */
  readonly header: string;
  /** Start of the text from which the key of a purpose is derived. */
  readonly keyInfo: string;
}

/** Where and under what the claims of one token are encrypted. */
export interface ClaimsPlace {
  /** 24 bytes. Constant only where `secret` is new for each token. */
  readonly nonce: Uint8Array;
  /** Random bytes that the key is made of, too. Absent: the ring's key alone. */
  readonly secret?: Uint8Array;
}

/** Encrypted claims, and the name of the key. */
export interface EncryptedClaims {
  readonly kid: string;
  readonly box: Uint8Array;
}

/** Turns the claims of a token into bytes that only the keys of a ring can read, alter or make. */
export interface ClaimsCipher {
  /** Encrypts claims under the current key. `id` is 16 random bytes. Throws as `Sealer.seal` does. */
  encrypt(
    purpose: TokenPurpose,
    terms: SealTerms,
    place: ClaimsPlace & { readonly id: Uint8Array },
  ): EncryptedClaims & { readonly issuedAt: number; readonly expiresAt: number };
  /** Reads claims. Throws as `Sealer.unseal` does; `undefined` stands for a token that is malformed. */
  decrypt(
    purpose: TokenPurpose,
    claims: (EncryptedClaims & ClaimsPlace) | undefined,
    now: number,
  ): UnsealedToken;
}

/** Makes a cipher for one form of token (XChaCha20-Poly1305 under a key per purpose, by HKDF-SHA256). */
export function createClaimsCipher(options: ClaimsCipherOptions): ClaimsCipher {
  const { keys, keyInfo } = options;
  const audience = canonicalAudience(options.audience);
  const headers = new Map<string, Uint8Array>();

  /** `undefined` for a key that is not in the ring. */
  function cipherOf(kid: string, purpose: TokenPurpose, { nonce, secret }: ClaimsPlace) {
    const key = keys.derive(kid, keyInfo + purpose);
    if (!key) return undefined;
    const name = `${kid} ${purpose}`;
    const header = headers.get(name) ?? encodeFields(options.header, kid, purpose, audience)!;
    headers.set(name, header);
    return xchacha20poly1305(secret ? hmac(sha256, key, secret) : key, nonce, header);
  }

  return {
    encrypt(purpose, terms, place) {
      ensurePurpose(purpose);
      const { kid, bytes, ...times } = writeContents(keys, purpose, terms, place.id);
      return { kid, box: cipherOf(kid, purpose, place)!.encrypt(bytes), ...times };
    },

    decrypt(purpose, claims, now) {
      ensurePurpose(purpose);
      ensureTime(now);
      const cipher = claims && cipherOf(claims.kid, purpose, claims);
      if (!cipher) throw invalidToken();
      let bytes: Uint8Array;
      try {
        bytes = cipher.decrypt(claims.box);
      } catch {
        // altered, or made for another purpose or audience
        throw invalidToken();
      }
      return readContents(keys, purpose, { kid: claims.kid, bytes, now });
    },
  };
}
