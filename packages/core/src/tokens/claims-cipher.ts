import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { encodeFields } from "../bytes/length-prefix.ts";
import { hmacSha256 } from "../bytes/hmac-sha256.ts";
import type { KeyRing } from "./key-ring.ts";
import {
  canonicalAudience,
  invalidToken,
  readClaims,
  writeClaims,
  type TokenClaims,
  type OpenedToken,
} from "./token-claims.ts";
import { ensurePurpose, ensureTime, type TokenPurpose } from "./token-lifetime.ts";

/** The server that a token is for. */
export interface SealerOptions {
  readonly keys: KeyRing;
  /** Absolute URL of the server, from its configuration, never from a request. */
  readonly audience: string;
}

/** Options of {@link createClaimsCipher}. The labels keep one form of token apart from every other. */
export interface ClaimsCipherOptions extends SealerOptions {
  /** First field of the header that is authenticated with the claims. */
  readonly header: string;
  /** Start of the text from which the key of a purpose is derived. */
  readonly keyInfo: string;
}

/** Inputs that make the encryption of one token unlike any other. */
export interface ClaimsNonce {
  /** 24 bytes. Constant only if `secret` is new for each token. */
  readonly nonce: Uint8Array;
  /** Random bytes that go into the key. Absent: only the ring's key. */
  readonly secret?: Uint8Array;
}

/** Encrypted claims, and the name of the key. */
export interface EncryptedClaims {
  readonly kid: string;
  readonly box: Uint8Array;
}

/** Turns the claims of a token into bytes that only a holder of the keys reads, alters or makes. */
export interface ClaimsCipher {
  /** Encrypts claims under the current key. `id` is 16 random bytes. Throws as `Sealer.seal` does. */
  encrypt(
    purpose: TokenPurpose,
    claims: TokenClaims,
    fresh: ClaimsNonce & { readonly id: Uint8Array },
  ): EncryptedClaims & { readonly issuedAt: number; readonly expiresAt: number };
  /** Decrypts claims. Throws as `Sealer.unseal` does; `undefined` stands for a malformed token. */
  decrypt(
    purpose: TokenPurpose,
    encrypted: (EncryptedClaims & ClaimsNonce) | undefined,
    now: number,
  ): OpenedToken;
}

/** Makes a cipher for one form of token (XChaCha20-Poly1305 under a key per purpose, by HKDF-SHA256). */
export function createClaimsCipher(options: ClaimsCipherOptions): ClaimsCipher {
  const { keys, keyInfo } = options;
  const audience = canonicalAudience(options.audience);
  const headers = new Map<string, Uint8Array>();

  /** `undefined` for a key that is not in the ring. */
  function cipherOf(kid: string, purpose: TokenPurpose, { nonce, secret }: ClaimsNonce) {
    const key = keys.derive(kid, keyInfo + purpose);
    if (!key) return undefined;
    const name = `${kid} ${purpose}`;
    const header = headers.get(name) ?? encodeFields(options.header, kid, purpose, audience)!;
    headers.set(name, header);
    return xchacha20poly1305(secret ? hmacSha256(key, secret) : key, nonce, header);
  }

  return {
    encrypt(purpose, claims, fresh) {
      ensurePurpose(purpose);
      const { kid, bytes, ...times } = writeClaims(keys, purpose, claims, fresh.id);
      return { kid, box: cipherOf(kid, purpose, fresh)!.encrypt(bytes), ...times };
    },

    decrypt(purpose, encrypted, now) {
      ensurePurpose(purpose);
      ensureTime(now);
      const cipher = encrypted && cipherOf(encrypted.kid, purpose, encrypted);
      if (!cipher) throw invalidToken();
      let bytes: Uint8Array;
      try {
        bytes = cipher.decrypt(encrypted.box);
      } catch {
        // altered, or made for another purpose or audience
        throw invalidToken();
      }
      return readClaims(keys, purpose, { kid: encrypted.kid, bytes, now });
    },
  };
}
