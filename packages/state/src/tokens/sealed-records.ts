import {
  createSealer,
  type IssuedToken,
  type OpenedToken,
  type SealerOptions,
  type TokenClaims,
  type TokenPurpose,
} from "@sluice/core";
import { clockSkewMs, createSha256, encodeBase64Url, type TextSealer } from "@sluice/core/internal";
import type { RecordTerms, StateStore } from "../contract/state-store.ts";

/** Options of {@link createSealedRecords}. */
export interface SealedRecordsOptions {
  readonly state: StateStore;
  readonly sealer: TextSealer;
  /** Kind of the records: keeps them apart from all others of the store. */
  readonly kind: string;
}

/** Texts in the state store, each under a secret of 32 characters that stands for it in a URL or a response. */
export interface SealedRecords {
  /** Keeps a text for one secret and context. Rejects with errors of the store. */
  keep(secret: string, text: string, context: readonly string[], terms: RecordTerms): Promise<void>;
  /**
   * The text. Rejects with `invalid_argument` if none is kept, or for another secret, context or
   * key, and with errors of the store.
   */
  find(secret: string, context: readonly string[], now: number): Promise<string>;
  /** Removes a text: true for exactly one of all calls. */
  take(secret: string, now: number): Promise<boolean>;
}

/**
 * Makes the records of one kind. They lie under the SHA-256 of their secret, sealed under a key made of the secret and the
 * ring: a reader of the store learns and can use nothing, a writer to it can permit nothing, and a key that leaves the ring
 * takes its records along.
 */
export function createSealedRecords({ state, sealer, kind }: SealedRecordsOptions): SealedRecords {
  return {
    async keep(secret, text, context, terms) {
      const sealed = sealer.seal(text, context, secret);
      await state.put(idOf(kind, secret), encoder.encode(sealed), terms);
    },
    async find(secret, context, now) {
      const record = await state.get(idOf(kind, secret), now);
      return sealer.unseal(decoder.decode(record), context, secret);
    },
    async take(secret, now) {
      return (await state.take(idOf(kind, secret), now)) !== undefined;
    },
  };
}

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
 * The record of one is a sealed token, under a key made of the stored token and the ring, and lies under the SHA-256 of
 * the stored token, as {@link createSealedRecords} says.
 */
export function createTokenStore({ state, ...options }: TokenStoreOptions): TokenStore {
  const sealer = createSealer(options);
  return {
    async issue(purpose, claims, { owner = "" } = {}) {
      const now = claims.now ?? Date.now();
      const secret = encodeBase64Url(crypto.getRandomValues(new Uint8Array(secretLength)));
      const { token: sealed, ...issued } = sealer.seal(purpose, { ...claims, now }, { secret });
      // as long as any process could still take it for live
      const expiresAt = issued.expiresAt + 2 * clockSkewMs;
      const terms = { now, expiresAt, owner };
      await state.put(idOf("token", secret), encoder.encode(sealed), terms);
      return { ...issued, token: secret };
    },

    async open(purpose, token, { now = Date.now() } = {}) {
      const record = isStoredToken(token) ? await state.get(idOf("token", token), now) : undefined;
      return sealer.unseal(purpose, decoder.decode(record), { now, secret: token });
    },
  };
}

/** True for text in the form of a stored token, which no sealed token has. */
export function isStoredToken(token: string): boolean {
  return typeof token === "string" && token.length === 32 && grammar.test(token);
}

const secretLength = 24;
const grammar = /^[A-Za-z0-9_-]{32}$/;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Name of a record, from which its secret cannot be found. */
function idOf(kind: string, secret: string): string {
  const hash = createSha256();
  hash.update(encoder.encode(secret));
  return `${kind} ${hash.digest()}`;
}
