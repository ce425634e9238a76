import {
  clockSkewMs,
  createClaimsCipher,
  createSha256,
  decodeBase64Url,
  encodeBase64Url,
  type EncryptedClaims,
  type IssuedToken,
  type SealerOptions,
  type TokenClaims,
  type TokenPurpose,
  type OpenedToken,
} from "@sluice/core";
import type { StateStore } from "../contract/state-store.ts";

/** Options of {@link createTokenStore}. */
export interface TokenStoreOptions extends SealerOptions {
  /** Keeps the claims. Tokens work in every process that shares it and the keys. */
  readonly state: StateStore;
}

/** Makes and opens stored tokens for one server. */
export interface TokenStore {
  /**
   * Keeps claims in the store until they end, and gives the token that names them. The record counts in the share of
   * `owner`. Default: the share of callers that nothing vouches for. Throws as `Sealer.seal` does, and what the store
   * throws.
   */
  issue(
    purpose: TokenPurpose,
    claims: TokenClaims,
    options?: { readonly owner?: string },
  ): Promise<IssuedToken>;
  /**
   * Opens a token. Throws `expired` when a genuine token is just over, `not_found` for every other fault, and
   * what the store throws. `now` is unix milliseconds. Default: `Date.now()`.
   */
  open(
    purpose: TokenPurpose,
    token: string,
    options?: { readonly now?: number },
  ): Promise<OpenedToken>;
}

/**
 * Makes a token store: tokens of 192 random bits (32 characters of base64url) in which nothing is encoded.
 * Their claims are records under the token's SHA-256, sealed with XChaCha20-Poly1305 under a key made of
 * the token and the ring. A reader of the store can use and read nothing, a writer to it can permit nothing,
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
    async issue(purpose, claims, { owner = "" } = {}) {
      const random = crypto.getRandomValues(new Uint8Array(secretLength + idLength));
      const secret = random.subarray(0, secretLength);
      const id = random.subarray(secretLength);
      const now = claims.now ?? Date.now();
      const { issuedAt, expiresAt, ...encrypted } = cipher.encrypt(
        purpose,
        { ...claims, now },
        { id, secret, nonce },
      );
      // as long as any process could still take it for live
      const forgetAt = expiresAt + 2 * clockSkewMs;
      await state.put(recordOf(secret), formatRecord(encrypted), {
        now,
        expiresAt: forgetAt,
        owner,
      });
      return { token: encodeBase64Url(secret), id: encodeBase64Url(id), issuedAt, expiresAt };
    },

    async open(purpose, token, { now = Date.now() } = {}) {
      const secret = isStoredToken(token) ? decodeBase64Url(token) : undefined;
      const encrypted = secret && parseRecord(await state.get(recordOf(secret), now));
      return cipher.decrypt(purpose, encrypted && { ...encrypted, secret, nonce }, now);
    },
  };
}

/** True for text in the form of a stored token, which no sealed token has. */
export function isStoredToken(token: string): boolean {
  return typeof token === "string" && token.length === 32 && grammar.test(token);
}

const secretLength = 24;
const idLength = 16;
// the key is good for one record: its nonce never meets another one under it
const nonce = new Uint8Array(24);
const grammar = /^[A-Za-z0-9_-]{32}$/;

/** Name of a token's record, from which the token cannot be found. */
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
