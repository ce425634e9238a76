import { bytesToHex, equalBytes, hexToBytes } from "@noble/ciphers/utils.js";
import { encodeBase64Url } from "../bytes/base64.ts";
import { hmacSha256 } from "../bytes/hmac-sha256.ts";
import { encodeFields, isText } from "../bytes/length-prefix.ts";
import { SluiceError } from "../errors/error.ts";
import {
  claimsLengthOf,
  claimsLengths,
  decodeClaims,
  encodeClaims,
  maxKeyBytes,
  type RawClaims,
} from "./claims-layout.ts";
import type { KeyRing } from "./key-ring.ts";
import { encodePrincipal, principalError, resourceTag, type Principal } from "./principal.ts";
import { nonceLength, openBytes, sealBytes, sealedLength } from "./seal.ts";
import {
  ensurePurpose,
  ensureTime,
  isExpired,
  isLegalLifetime,
  mintTimes,
  type GrantUse,
  type TokenAuth,
  type TokenPurpose,
} from "./token-lifetime.ts";

/** Claims of a new token. */
export interface TokenClaims {
  /**
   * What the token is for, as its purpose encodes it (a storage key with its mount's prefix, the facts of a link, a
   * slot): 1 to `maxKeyBytes` UTF-8 bytes.
   */
  readonly key: string;
  /**
   * The principal that may use the token: with a `sessionId` in no other session, without a `subject` in that session
   * only. Absent: the token authenticates itself.
   */
  readonly principal?: Principal | undefined;
  /** Default `window`. */
  readonly use?: GrantUse | undefined;
  /** Strong etag that the object must still have when the token is used. */
  readonly etag?: string | undefined;
  /** Life in milliseconds, rounded down to seconds, at least 1,000. Default and maximum: `tokenLifetimes`. */
  readonly ttlMs?: number | undefined;
  /** Unix milliseconds. Default: `Date.now()`. */
  readonly now?: number | undefined;
}

/** A new token and what a server needs to know about it. */
export interface IssuedToken {
  /**
   * 252, 700 or 1,596 characters of `[A-Za-z0-9._-]` when it is sealed, 4,006 for a long link, 32 of `[A-Za-z0-9_-]`
   * when it is stored. A secret: keep it out of logs.
   */
  readonly token: string;
  /** Id of the grant, as opening gives it. */
  readonly id: string;
  /** Unix milliseconds, a whole second. */
  readonly issuedAt: number;
  /** Unix milliseconds, a whole second. */
  readonly expiresAt: number;
}

/** Claims of a genuine token. */
export interface OpenedToken {
  /** Random id of the grant, 22 characters of base64url: the name of a grant in stores and logs. */
  readonly id: string;
  readonly key: string;
  readonly auth: TokenAuth;
  readonly use: GrantUse;
  /** Unix milliseconds. */
  readonly issuedAt: number;
  /** Unix milliseconds. Servers accept the token until `clockSkewMs` after it. */
  readonly expiresAt: number;
  /** True for a token that is good in one session only. */
  readonly sessionBound: boolean;
  /** `resourceTag` of the id of that session, for questions about its end. */
  readonly sessionTag?: string | undefined;
  /** True for a token that is good for one version of the object only. */
  readonly etagBound: boolean;
  /**
   * True when the token is bound to exactly this principal; never for a self-authenticating one. A principal with a
   * subject may present the token without the session it was made in, but not in another session.
   */
  matchesPrincipal(principal: Principal): boolean;
  /** True when the token is good for every version, or for the one with this strong etag. */
  matchesEtag(etag: string | undefined): boolean;
}

/** The server that a token is for. */
export interface SealerOptions {
  readonly keys: KeyRing;
  /** Absolute URL of the server, from its configuration, never from a request. */
  readonly audience: string;
}

/** Makes and opens sealed tokens for one server. */
export interface Sealer {
  /**
   * Seals claims into a token. With a `secret` it opens only with the same one: the record of a stored token. Throws a
   * `RangeError` for a time out of bounds, a `TypeError` for a malformed key, principal or etag.
   */
  seal(
    purpose: TokenPurpose,
    claims: TokenClaims,
    options?: { readonly secret?: string },
  ): IssuedToken;
  /**
   * Opens a token. Throws `expired` when a genuine token has expired, `not_found` for every other
   * fault. `now` is unix milliseconds. Default: `Date.now()`.
   */
  unseal(
    purpose: TokenPurpose,
    token: string,
    options?: { readonly now?: number; readonly secret?: string },
  ): OpenedToken;
}

/**
 * Makes a sealer. Its tokens carry their claims, and only a holder of the keys reads, alters or makes one
 * (XChaCha20-Poly1305 under a key per purpose, derived by HKDF-SHA256). A token is
 * `v1.<kid>.<base64url of nonce, cipher text and tag>`; the key id, the purpose and the audience
 * are authenticated with it.
 */
export function createSealer({ keys, audience }: SealerOptions): Sealer {
  const context = encodeFields(canonicalAudience(audience));
  const tags = new Tags(keys);
  return {
    seal(purpose, claims, { secret } = {}) {
      ensurePurpose(purpose);
      const random = crypto.getRandomValues(new Uint8Array(nonceLength + idLength));
      const nonce = random.subarray(0, nonceLength);
      const raw = rawClaims(tags, purpose, claims, random.subarray(nonceLength));
      const bytes = encodeClaims(raw, maxKeyBytes(purpose, secret !== undefined));
      const token = sealBytes(keys, bytes, { purpose, context, secret }, nonce)!;
      const { id, issuedAt, expiresAt } = raw;
      return { token, id: encodeBase64Url(id), issuedAt, expiresAt };
    },

    unseal(purpose, token, { now = Date.now(), secret } = {}) {
      ensurePurpose(purpose);
      ensureTime(now);
      const maxKey = maxKeyBytes(purpose, secret !== undefined);
      // the length comes first: nothing long is ever matched, decoded or hashed
      const longest = sealedLength(claimsLengthOf(maxKey));
      const fits =
        typeof token === "string" && token.length <= longest && tokenLengths.has(token.length);
      const opened = fits ? openBytes(keys, token, { purpose, context, secret }) : undefined;
      const claims = opened && decodeClaims(opened.bytes, maxKey);
      const auth = claims?.principal ? "bound" : "self";
      if (!claims || !isLegalLifetime(purpose, auth, claims) || claims.issuedAt > now + maxAheadMs)
        throw new SluiceError("not_found", "token: not valid here");
      if (isExpired(claims.expiresAt, now))
        throw new SluiceError("expired", "token: expired; ask for a new one");
      return openedToken(tags, opened.kid, claims);
    },
  };
}

const idLength = 16;
const tokenLengths: ReadonlySet<number> = new Set(claimsLengths.map(sealedLength));
/** How far the clock of the process that made a token may be ahead of ours. */
const maxAheadMs = 60_000;

/** The claims of a new token under the current key. Throws as `Sealer.seal` does. */
function rawClaims(
  tags: Tags,
  purpose: TokenPurpose,
  { key, principal, use = "window", etag, ttlMs, now = Date.now() }: TokenClaims,
  id: Uint8Array,
): RawClaims {
  const times = mintTimes(purpose, principal ? "bound" : "self", now, ttlMs);
  const holder = principal && encodePrincipal(principal, principal.subject === "");
  const version = etag === undefined ? undefined : encodeFields(etag);
  if (principal && !holder) throw principalError(principal);
  if (!isText(key) || (etag !== undefined && !version))
    throw new TypeError("token: key and etag must be strings without lone surrogates");
  return {
    id,
    key,
    use,
    ...times,
    session: principal?.sessionId ? hexToBytes(resourceTag(principal.sessionId)) : undefined,
    principal: holder && tags.of("principal", holder),
    etag: version && tags.of("etag", version),
  };
}

/** A genuine token with these claims, made under the key `kid`. */
function openedToken(
  tags: Tags,
  kid: string,
  { id, key, use, issuedAt, expiresAt, principal, etag, session }: RawClaims,
): OpenedToken {
  const sessionTag = session && bytesToHex(session);
  return {
    id: encodeBase64Url(id),
    key,
    auth: principal ? "bound" : "self",
    use,
    issuedAt,
    expiresAt,
    sessionBound: session !== undefined,
    sessionTag,
    etagBound: etag !== undefined,
    matchesPrincipal(other) {
      const { subject, sessionId = "" } = other;
      const holder = encodePrincipal(other, subject === "");
      if (!principal || !holder) return false;
      if (session && sessionId !== "" && resourceTag(sessionId) !== sessionTag) return false;
      return isSameTag(principal, tags.of("principal", holder, kid));
    },
    matchesEtag(other) {
      if (!etag) return true;
      const version = other === undefined ? undefined : encodeFields(other);
      return version !== undefined && isSameTag(etag, tags.of("etag", version, kid));
    },
  };
}

/** Labels of the keys that make tags; part of every token in circulation. */
const tagLabels = { principal: "sluice/v1/principal", etag: "sluice/v1/revision" } as const;
/** Tags that a sealer remembers. */
const maxKnown = 512;
/** Bytes of the fields of such a tag. */
const longestKnown = 256;

/**
 * 16 bytes that stand for a principal or a version, computable only with the key. Remembered, because the same user and
 * file are asked about again and again.
 */
class Tags {
  readonly #keys: KeyRing;
  readonly #known = new Map<string, { readonly key: Uint8Array; readonly tag: Uint8Array }>();

  constructor(keys: KeyRing) {
    this.#keys = keys;
  }

  /** `undefined` once the ring dropped the key. Default of `kid`: the current key. */
  of(
    kind: keyof typeof tagLabels,
    fields: Uint8Array,
    kid: string = this.#keys.current,
  ): Uint8Array | undefined {
    const key = this.#keys.derive(kid, tagLabels[kind]);
    if (!key || fields.length > longestKnown) return key && makeTag(key, fields);
    const name = `${kid} ${kind} ${String.fromCharCode(...fields)}`;
    const entry = this.#known.get(name);
    // a replaced ring derives another key under the same name
    if (entry?.key === key) return entry.tag;
    const tag = makeTag(key, fields);
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(name, { key, tag });
    return tag;
  }
}

function makeTag(key: Uint8Array, fields: Uint8Array): Uint8Array {
  return hmacSha256(key, fields).subarray(0, 16);
}

/** Compares in constant time. */
function isSameTag(sealed: Uint8Array, made: Uint8Array | undefined): boolean {
  return made !== undefined && equalBytes(sealed, made);
}

/** The audience in one spelling. Throws a `TypeError` when it is not a server URL. */
function canonicalAudience(audience: string): string {
  const url = URL.canParse(audience) ? new URL(audience) : undefined;
  if (!url || url.hash !== "" || url.username !== "" || url.password !== "")
    throw new TypeError(
      "token: the audience must be the server's absolute URL without user info or fragment",
    );
  return url.href;
}
