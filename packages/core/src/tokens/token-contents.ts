import { bytesToHex, equalBytes, hexToBytes } from "@noble/ciphers/utils.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { encodeBase64Url } from "../bytes/base64.ts";
import { SluiceError } from "../errors/error.ts";
import { clockSkewMs, type GrantUse } from "./grant.ts";
import type { KeyRing } from "./key-ring.ts";
import { encodeFields, isText } from "../bytes/length-prefix.ts";
import { encodePrincipal, principalRule, resourceTag, type Principal } from "./principal.ts";
import { authOf, decodeClaims, encodeClaims } from "./token-claims.ts";
import { isLifetime, mintTimes, type TokenAuth, type TokenPurpose } from "./token-lifetime.ts";

/** What a token is to say. */
export interface SealTerms {
  /** The server's own id of the resource: 1 to 1,024 UTF-8 bytes. */
  readonly handle: string;
  /**
   * The principal that may use the token: with a `sessionId` in no other session, without a `subject` in that session only.
   * Absent: the token authenticates itself.
   */
  readonly principal?: Principal;
  /** Default `window`. */
  readonly use?: GrantUse;
  /** Strong etag that the object must still have when the token is used. */
  readonly revision?: string;
  /** Life in milliseconds, rounded down to seconds, at least 1,000. Default and maximum: `tokenLifetimes`. */
  readonly ttlMs?: number;
  /** Unix milliseconds; default `Date.now()`. */
  readonly now?: number;
}

/** A new token and what a server needs to know about it. */
export interface SealedToken {
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

/** What a genuine token says. */
export interface UnsealedToken {
  /** Random id of the grant, 22 characters of base64url: the key of single use and of logs. */
  readonly id: string;
  readonly handle: string;
  readonly auth: TokenAuth;
  readonly use: GrantUse;
  /** Unix milliseconds. */
  readonly issuedAt: number;
  /** Unix milliseconds. Tokens are accepted until `clockSkewMs` after it. */
  readonly expiresAt: number;
  /** A bound token that was made in a session, and is good in no other one. */
  readonly sessionBound: boolean;
  /** `resourceTag` of the id of that session, for questions about its end. */
  readonly sessionTag?: string;
  /** The token is good for one version of the object only. */
  readonly revisionPinned: boolean;
  /**
   * True when the token is bound to exactly this principal; never for a self-authenticating one. A principal with a subject
   * may come without the session that the token was made in, and never with another one.
   */
  matchesPrincipal(principal: Principal): boolean;
  /** True when the token is not pinned, or is pinned to this strong etag. */
  matchesRevision(etag: string | undefined): boolean;
}

/** Length in bytes of a grant's id. */
export const idLength = 16;

/** What a token says, as bytes to be enciphered under a key of the ring's current name. */
interface Contents {
  readonly kid: string;
  readonly bytes: Uint8Array;
  /** Unix milliseconds, whole seconds. */
  readonly issuedAt: number;
  readonly expiresAt: number;
}

/** Writes terms down for a token with the random id `id`; throws as `seal` does for terms that are none. */
export function writeContents(
  keys: KeyRing,
  purpose: TokenPurpose,
  terms: SealTerms,
  id: Uint8Array,
): Contents {
  const { handle, principal, use = "window", revision, now = Date.now() } = terms;
  const times = mintTimes(purpose, principal ? "bound" : "self", now, terms.ttlMs);
  const who = principal && encodePrincipal(principal, principal.subject === "");
  const version = revision === undefined ? undefined : encodeFields(revision);
  if (principal && !who) throw new TypeError(principalRule);
  if (!isText(handle) || (revision !== undefined && !version))
    throw new TypeError("token: handle and revision must be strings without lone surrogates");
  const kid = keys.current;
  const bytes = encodeClaims({
    id,
    handle,
    use,
    ...times,
    ...(principal?.sessionId && { session: hexToBytes(resourceTag(principal.sessionId)) }),
    ...(who && { principal: tag(keys, kid, "principal", who)! }),
    ...(version && { revision: tag(keys, kid, "revision", version)! }),
  });
  return { kid, bytes, ...times };
}

/** Reads what was enciphered under the key `kid`, at `now`; throws as `unseal` does. */
export function readContents(
  keys: KeyRing,
  purpose: TokenPurpose,
  { kid, bytes, now }: { readonly kid: string; readonly bytes: Uint8Array; readonly now: number },
): UnsealedToken {
  const claims = decodeClaims(bytes);
  if (!claims || !isLifetime(purpose, authOf(claims), claims)) throw invalidToken();
  if (claims.issuedAt > now + maxAheadMs) throw invalidToken();
  if (now >= claims.expiresAt + clockSkewMs)
    throw new SluiceError("expired", "token: its time is over; ask for a new one");
  const { id, principal, revision, session, ...told } = claims;
  const sessionTag = session && bytesToHex(session);
  return {
    ...told,
    sessionBound: session !== undefined,
    ...(sessionTag !== undefined && { sessionTag }),
    id: encodeBase64Url(id),
    auth: authOf(claims),
    revisionPinned: revision !== undefined,
    matchesPrincipal(other) {
      const { subject, sessionId = "" } = other;
      const who = encodePrincipal(other, subject === "");
      if (!principal || !who) return false;
      if (session && sessionId !== "" && resourceTag(sessionId) !== sessionTag) return false;
      return matchesTag(principal, tag(keys, kid, "principal", who));
    },
    matchesRevision(etag) {
      if (!revision) return true;
      const version = etag === undefined ? undefined : encodeFields(etag);
      return version !== undefined && matchesTag(revision, tag(keys, kid, "revision", version));
    },
  };
}

/** How far the clock of the process that made a token may be ahead of ours. */
const maxAheadMs = 60_000;

/** 16 bytes that stand for `fields` and that nobody without the key can make or read; `undefined` once it was dropped. */
function tag(
  keys: KeyRing,
  kid: string,
  kind: "principal" | "revision",
  fields: Uint8Array,
): Uint8Array | undefined {
  const key = keys.derive(kid, `sluice/v1/${kind}`);
  return key && hmac(sha256, key, fields).slice(0, 16);
}

/** Compares in constant time. */
function matchesTag(sealed: Uint8Array, made: Uint8Array | undefined): boolean {
  return made !== undefined && equalBytes(sealed, made);
}

/** The audience as one spelling; a `TypeError` when it is no URL of a server. */
export function canonicalAudience(audience: string): string {
  const url = URL.canParse(audience) ? new URL(audience) : undefined;
  if (!url || url.hash !== "" || url.username !== "" || url.password !== "")
    throw new TypeError(
      "token: the audience must be the server's absolute URL without user info or fragment",
    );
  return url.href;
}

/** For whatever is wrong with a token: nobody learns what. */
export function invalidToken(): SluiceError {
  return new SluiceError("not_found", "token: not valid here");
}
