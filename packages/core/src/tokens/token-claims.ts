import { bytesToHex, equalBytes, hexToBytes } from "@noble/ciphers/utils.js";
import { encodeBase64Url } from "../bytes/base64.ts";
import { encodeFields, isText } from "../bytes/length-prefix.ts";
import { hmacSha256 } from "../bytes/hmac-sha256.ts";
import { SluiceError } from "../errors/error.ts";
import { authOf, decodeClaims, encodeClaims } from "./claims-layout.ts";
import type { KeyRing } from "./key-ring.ts";
import { encodePrincipal, principalRule, resourceTag, type Principal } from "./principal.ts";
import {
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
   * Name of the object that the token permits to move, as the server has it: 1 to 1,040 UTF-8
   * bytes.
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
   * 252, 700 or 1,596 characters of `[A-Za-z0-9._-]` when it is sealed, 32 of `[A-Za-z0-9_-]` when it
   * is stored. A secret: keep it out of logs.
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
   * subject may come without the session that the token was made in, and never with another one.
   */
  matchesPrincipal(principal: Principal): boolean;
  /** True when the token is good for every version, or for the one with this strong etag. */
  matchesEtag(etag: string | undefined): boolean;
}

/** Length in bytes of a grant's id. */
export const idLength = 16;

/** Writes the claims of a token with the random id `id`. Throws as `Sealer.seal` does. */
export function writeClaims(
  keys: KeyRing,
  purpose: TokenPurpose,
  claims: TokenClaims,
  id: Uint8Array,
): {
  readonly kid: string;
  readonly bytes: Uint8Array;
  readonly issuedAt: number;
  readonly expiresAt: number;
} {
  const { key, principal, use = "window", etag, now = Date.now() } = claims;
  const times = mintTimes(purpose, principal ? "bound" : "self", now, claims.ttlMs);
  const holder = principal && encodePrincipal(principal, principal.subject === "");
  const version = etag === undefined ? undefined : encodeFields(etag);
  if (principal && !holder) throw new TypeError(principalRule);
  if (!isText(key) || (etag !== undefined && !version))
    throw new TypeError("token: key and etag must be strings without lone surrogates");
  const kid = keys.current;
  const bytes = encodeClaims({
    id,
    key,
    use,
    ...times,
    session: principal?.sessionId ? hexToBytes(resourceTag(principal.sessionId)) : undefined,
    principal: holder && tag(keys, kid, "principal", holder),
    etag: version && tag(keys, kid, "etag", version),
  });
  return { kid, bytes, ...times };
}

/** Reads claims that were encrypted under the key `kid`, at `now`. Throws as `Sealer.unseal` does. */
export function readClaims(
  keys: KeyRing,
  purpose: TokenPurpose,
  { kid, bytes, now }: { readonly kid: string; readonly bytes: Uint8Array; readonly now: number },
): OpenedToken {
  const claims = decodeClaims(bytes);
  if (!claims || !isLegalLifetime(purpose, authOf(claims), claims)) throw invalidToken();
  if (claims.issuedAt > now + maxAheadMs) throw invalidToken();
  if (isExpired(claims.expiresAt, now))
    throw new SluiceError("expired", "token: expired; ask for a new one");
  const { id, key, use, issuedAt, expiresAt, principal, etag, session } = claims;
  const sessionTag = session && bytesToHex(session);
  return {
    id: encodeBase64Url(id),
    key,
    auth: authOf(claims),
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
      return matchesTag(principal, tag(keys, kid, "principal", holder));
    },
    matchesEtag(other) {
      if (!etag) return true;
      const version = other === undefined ? undefined : encodeFields(other);
      return version !== undefined && matchesTag(etag, tag(keys, kid, "etag", version));
    },
  };
}

/** How far the clock of the process that made a token may be ahead of ours. */
const maxAheadMs = 60_000;

/** Labels of the keys that make tags; part of every token in circulation. */
const tagLabels = { principal: "sluice/v1/principal", etag: "sluice/v1/revision" } as const;

/** 16 bytes that stand for `fields`; only the key makes them. `undefined` once the ring dropped the key. */
function tag(
  keys: KeyRing,
  kid: string,
  kind: keyof typeof tagLabels,
  fields: Uint8Array,
): Uint8Array | undefined {
  const key = keys.derive(kid, tagLabels[kind]);
  if (!key || fields.length > longestKnown) return key && makeTag(key, fields);
  const tags = knownTags.get(key) ?? new Map<string, Uint8Array>();
  const name = String.fromCharCode(...fields);
  const knownTag = tags.get(name);
  if (knownTag) return knownTag;
  const newTag = makeTag(key, fields);
  if (tags.size >= maxKnown) tags.clear();
  tags.set(name, newTag);
  knownTags.set(key, tags);
  return newTag;
}

function makeTag(key: Uint8Array, fields: Uint8Array): Uint8Array {
  return hmacSha256(key, fields).subarray(0, 16);
}

/** Tags under each derived key that the rings still have: one user and one file are asked about again and again. */
const knownTags = new WeakMap<Uint8Array, Map<string, Uint8Array>>();
/** Tags of one key. */
const maxKnown = 512;
/** Bytes of the fields of such a tag. */
const longestKnown = 256;

/** Compares in constant time. */
function matchesTag(sealed: Uint8Array, made: Uint8Array | undefined): boolean {
  return made !== undefined && equalBytes(sealed, made);
}

/** The audience in one spelling. Throws a `TypeError` when it is not a server URL. */
export function canonicalAudience(audience: string): string {
  const url = URL.canParse(audience) ? new URL(audience) : undefined;
  if (!url || url.hash !== "" || url.username !== "" || url.password !== "")
    throw new TypeError(
      "token: the audience must be the server's absolute URL without user info or fragment",
    );
  return url.href;
}

/** The one error for every token that is not genuine: it does not say what is wrong. */
export function invalidToken(): SluiceError {
  return new SluiceError("not_found", "token: not valid here");
}
