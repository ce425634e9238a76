import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { decodeBase64Url, encodeBase64Url } from "../bytes/base64.ts";
import { clockSkewMs } from "../tokens/grant.ts";
import { encodeFields } from "../bytes/length-prefix.ts";
import type { SealerOptions } from "../tokens/sealed-token.ts";
import { createSha256 } from "../bytes/sha256.ts";
import type { StateStore } from "./state-store.ts";
import {
  canonicalAudience,
  idLength,
  invalidToken,
  readContents,
  writeContents,
  type SealedToken,
  type SealTerms,
  type UnsealedToken,
} from "../tokens/token-contents.ts";
import { ensurePurpose, ensureTime, type TokenPurpose } from "../tokens/token-lifetime.ts";

/** Options of {@link createTokenStore}. */
export interface TokenStoreOptions extends SealerOptions {
  /** Where the permissions are. Tokens work in every process that shares it and the keys. */
  readonly state: StateStore;
}

/** Makes and opens stored tokens for one server. */
export interface TokenStore {
  /**
   * Keeps a permission in the store until it ends, and gives the token that names it. Rejects with what
   * the store throws, and as `seal` of a sealer throws. It counts in the share of `owner` in the store; by default
   * in that of callers that nothing vouches for.
   */
  issue(
    purpose: TokenPurpose,
    terms: SealTerms,
    options?: { readonly owner?: string },
  ): Promise<SealedToken>;
  /**
   * Opens a token. Rejects with `expired` when its time is just over, with `not_found` for everything else that is
   * wrong with it, and with what the store throws. `now` is unix milliseconds, default `Date.now()`.
   */
  open(
    purpose: TokenPurpose,
    token: string,
    options?: { readonly now?: number },
  ): Promise<UnsealedToken>;
}

/**
 * Makes a token store: tokens of 192 random bits (32 characters of base64url) in which nothing is encoded.
 * What they permit is a record under the token's SHA-256, sealed with XChaCha20-Poly1305 under a key made of
 * the token and the ring: who reads the store can use and read nothing, who writes to it can permit nothing,
 * and a key that leaves the ring takes its tokens along.
 */
export function createTokenStore(options: TokenStoreOptions): TokenStore {
  const { keys, state } = options;
  const audience = canonicalAudience(options.audience);

  /** `undefined` for a key that is not in the ring. It is good for one record, so its nonce is fixed. */
  function cipherOf(secret: Uint8Array, kid: string, purpose: TokenPurpose) {
    const key = keys.derive(kid, `sluice/v1/stored/${purpose}`);
    const header = encodeFields("sluice.v1 stored", kid, purpose, audience)!;
    return key && xchacha20poly1305(hmac(sha256, key, secret), new Uint8Array(24), header);
  }

  return {
    async issue(purpose, terms, { owner = "" } = {}) {
      ensurePurpose(purpose);
      const random = crypto.getRandomValues(new Uint8Array(secretLength + idLength));
      const secret = random.subarray(0, secretLength);
      const id = random.subarray(secretLength);
      const now = terms.now ?? Date.now();
      const { kid, bytes, ...times } = writeContents(keys, purpose, { ...terms, now }, id);
      const record = formatRecord(kid, cipherOf(secret, kid, purpose)!.encrypt(bytes));
      // as long as any process could still take it for live
      const expiresAt = times.expiresAt + 2 * clockSkewMs;
      await state.put(recordOf(secret), record, { now, expiresAt, owner });
      return { token: encodeBase64Url(secret), id: encodeBase64Url(id), ...times };
    },

    async open(purpose, token, { now = Date.now() } = {}) {
      ensurePurpose(purpose);
      ensureTime(now);
      const secret = isStoredToken(token) ? decodeBase64Url(token) : undefined;
      if (!secret) throw invalidToken();
      const { kid, box } = parseRecord(await state.get(recordOf(secret), now));
      let bytes: Uint8Array | undefined;
      try {
        bytes = cipherOf(secret, kid, purpose)?.decrypt(box);
      } catch {
        // altered, or made for another purpose or audience
      }
      if (!bytes) throw invalidToken();
      return readContents(keys, purpose, { kid, bytes, now });
    },
  };
}

/** True for what is spelled as a stored token is, as no sealed one can be. */
export function isStoredToken(token: string): boolean {
  return typeof token === "string" && token.length === 32 && grammar.test(token);
}

const secretLength = 24;
const grammar = /^[A-Za-z0-9_-]{32}$/;

/** Under which name the store keeps a record: nobody can find the token from it. */
function recordOf(secret: Uint8Array): string {
  const hash = createSha256();
  hash.update(secret);
  return `token ${hash.digest()}`;
}

/** A record: its version, two characters of the key's name, and the box. */
function formatRecord(kid: string, box: Uint8Array): Uint8Array {
  const record = new Uint8Array(3 + box.length);
  record.set([recordVersion, kid.charCodeAt(0), kid.charCodeAt(1)]);
  record.set(box, 3);
  return record;
}

function parseRecord(record: Uint8Array | undefined): { kid: string; box: Uint8Array } {
  if (record?.[0] !== recordVersion) throw invalidToken();
  return { kid: String.fromCharCode(...record.subarray(1, 3)), box: record.subarray(3) };
}

const recordVersion = 1;
