import {
  clockSkewMs,
  createClaimsCipher,
  createSha256,
  decodeBase64Url,
  encodeBase64Url,
  type EncryptedClaims,
  type SealedToken,
  type SealerOptions,
  type SealTerms,
  type TokenPurpose,
  type UnsealedToken,
} from "@sluice/core";
import type { StateStore } from "../contract/state-store.ts";

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
  const { keys, audience, state } = options;
  const cipher = createClaimsCipher({
    keys,
    audience,
    header: "sluice.v1 stored",
    keyInfo: "sluice/v1/stored/",
  });
  return {
    async issue(purpose, terms, { owner = "" } = {}) {
      const random = crypto.getRandomValues(new Uint8Array(secretLength + idLength));
      const secret = random.subarray(0, secretLength);
      const id = random.subarray(secretLength);
      const now = terms.now ?? Date.now();
      const place = { id, secret, nonce };
      const { issuedAt, expiresAt, ...claims } = cipher.encrypt(purpose, { ...terms, now }, place);
      // as long as any process could still take it for live
      const keepUntil = expiresAt + 2 * clockSkewMs;
      await state.put(recordOf(secret), formatRecord(claims), { now, expiresAt: keepUntil, owner });
      return { token: encodeBase64Url(secret), id: encodeBase64Url(id), issuedAt, expiresAt };
    },

    async open(purpose, token, { now = Date.now() } = {}) {
      const secret = isStoredToken(token) ? decodeBase64Url(token) : undefined;
      const claims = secret && parseRecord(await state.get(recordOf(secret), now));
      return cipher.decrypt(purpose, claims && { ...claims, secret, nonce }, now);
    },
  };
}

/** True for what is spelled as a stored token is, as no sealed one can be. */
export function isStoredToken(token: string): boolean {
  return typeof token === "string" && token.length === 32 && grammar.test(token);
}

const secretLength = 24;
const idLength = 16;
// the key is good for one record: its nonce never meets another one under it
const nonce = new Uint8Array(24);
const grammar = /^[A-Za-z0-9_-]{32}$/;

/** Under which name the store keeps a record: nobody can find the token from it. */
function recordOf(secret: Uint8Array): string {
  const hash = createSha256();
  hash.update(secret);
  return `token ${hash.digest()}`;
}

/** A record: its version, two characters of the key's name, and the box. */
function formatRecord({ kid, box }: EncryptedClaims): Uint8Array {
  const record = new Uint8Array(3 + box.length);
  record.set([recordVersion, kid.charCodeAt(0), kid.charCodeAt(1)]);
  record.set(box, 3);
  return record;
}

function parseRecord(record: Uint8Array | undefined): EncryptedClaims | undefined {
  if (record?.[0] !== recordVersion) return undefined;
  return { kid: String.fromCharCode(...record.subarray(1, 3)), box: record.subarray(3) };
}

const recordVersion = 1;
