import { xchacha20poly1305 } from "@noble/ciphers/chacha.js";
import { equalBytes } from "@noble/ciphers/utils.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { decodeBase64Url, encodeBase64Url } from "./base64.ts";
import { SluiceError } from "./error.ts";
import { clockSkewMs, type GrantUse } from "./grant.ts";
import type { KeyRing } from "./key-ring.ts";
import { encodeFields, isText } from "./length-prefix.ts";
import { encodePrincipal, principalRule, type Principal } from "./principal.ts";
import { authOf, claimsLengths, decodeClaims, encodeClaims } from "./token-claims.ts";
import {
  ensurePurpose,
  ensureTime,
  isLifetime,
  mintTimes,
  type TokenAuth,
  type TokenPurpose,
} from "./token-lifetime.ts";

/** Options of {@link createSealer}. */
export interface SealerOptions {
  readonly keys: KeyRing;
  /** Absolute URL of the server the tokens are for, from configuration, never from a request. */
  readonly audience: string;
}

/** What `seal` puts into a token. */
export interface SealTerms {
  /** The server's own id of the resource: 1 to 1,024 UTF-8 bytes. */
  readonly handle: string;
  /** Who may use it; with a `sessionId` in that session only. Absent: the token authenticates itself. */
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
  /** 252, 700 or 1,596 characters of `[A-Za-z0-9._-]`. A secret: keep it out of logs. */
  readonly token: string;
  /** Id of the grant, as `unseal` gives it. */
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
  /** A bound token that is good in the session it was made in only. */
  readonly sessionBound: boolean;
  /** The token is good for one version of the object only. */
  readonly revisionPinned: boolean;
  /** True when the token is bound to exactly this principal; never for a self-authenticating one. */
  matchesPrincipal(principal: Principal): boolean;
  /** True when the token is not pinned, or is pinned to this strong etag. */
  matchesRevision(etag: string | undefined): boolean;
}

/** Makes and opens sealed tokens for one server. */
export interface Sealer {
  /**
   * Seals a permission into a token. Throws a `RangeError` for a time out of bounds, a `TypeError`
   * for a malformed handle, principal or revision.
   */
  seal(purpose: TokenPurpose, terms: SealTerms): SealedToken;
  /**
   * Opens a token. Throws `expired` when it is genuine and its time is over, `not_found` for
   * everything else that is wrong with it. `now` is unix milliseconds, default `Date.now()`.
   */
  unseal(purpose: TokenPurpose, token: string, options?: { readonly now?: number }): UnsealedToken;
}

/**
 * Makes a sealer: tokens that carry a permission and that nobody else can read, alter or make
 * (XChaCha20-Poly1305 under a key per purpose, derived by HKDF-SHA256). A token is
 * `v1.<kid>.<base64url of nonce, cipher text and tag>`; the key id, the purpose and the audience
 * are authenticated with it.
 */
export function createSealer(options: SealerOptions): Sealer {
  const { keys } = options;
  const audience = canonicalAudience(options.audience);

  const headers = new Map<string, Uint8Array>();

  function cipher(key: Uint8Array, nonce: Uint8Array, kid: string, purpose: TokenPurpose) {
    const name = `${kid} ${purpose}`;
    const header = headers.get(name) ?? encodeFields("sluice.v1", kid, purpose, audience)!;
    headers.set(name, header);
    return xchacha20poly1305(key, nonce, header);
  }

  return {
    seal(purpose, terms) {
      ensurePurpose(purpose);
      const { handle, principal, use = "window", revision, now = Date.now() } = terms;
      const times = mintTimes(purpose, principal ? "bound" : "self", now, terms.ttlMs);
      const who = principal && encodePrincipal(principal, true);
      const version = revision === undefined ? undefined : encodeFields(revision);
      if (principal && !who) throw new TypeError(principalRule);
      if (!isText(handle) || (revision !== undefined && !version))
        throw new TypeError("token: handle and revision must be strings without lone surrogates");
      const kid = keys.current;
      const random = crypto.getRandomValues(new Uint8Array(nonceLength + idLength));
      const nonce = random.subarray(0, nonceLength);
      const id = random.subarray(nonceLength);
      const claims = encodeClaims({
        id,
        handle,
        use,
        ...times,
        sessionBound: Boolean(principal?.sessionId),
        ...(who && { principal: tag(keys, kid, "principal", who)! }),
        ...(version && { revision: tag(keys, kid, "revision", version)! }),
      });
      const key = keys.derive(kid, `sluice/v1/${purpose}`)!;
      const box = cipher(key, nonce, kid, purpose).encrypt(claims);
      const body = new Uint8Array(nonceLength + box.length);
      body.set(nonce);
      body.set(box, nonceLength);
      return { token: `v1.${kid}.${encodeBase64Url(body)}`, id: encodeBase64Url(id), ...times };
    },

    unseal(purpose, token, { now = Date.now() } = {}) {
      ensurePurpose(purpose);
      ensureTime(now);
      // the length comes first: nothing long is ever matched, decoded or hashed
      if (typeof token !== "string" || !tokenLengths.has(token.length)) throw notFound();
      const [, kid = "", encoded = ""] = tokenGrammar.exec(token) ?? [];
      const key = keys.derive(kid, `sluice/v1/${purpose}`);
      const body = key && decodeBase64Url(encoded);
      if (!key || !body) throw notFound();
      const nonce = body.subarray(0, nonceLength);
      let plain: Uint8Array;
      try {
        plain = cipher(key, nonce, kid, purpose).decrypt(body.subarray(nonceLength));
      } catch {
        throw notFound();
      }
      const claims = decodeClaims(plain);
      if (!claims || !isLifetime(purpose, authOf(claims), claims)) throw notFound();
      if (claims.issuedAt > now + maxAheadMs) throw notFound();
      if (now >= claims.expiresAt + clockSkewMs)
        throw new SluiceError("expired", "token: its time is over; ask for a new one");
      const { id, principal, revision, ...told } = claims;
      return {
        ...told,
        id: encodeBase64Url(id),
        auth: authOf(claims),
        revisionPinned: revision !== undefined,
        matchesPrincipal(other) {
          const who = encodePrincipal(other, told.sessionBound);
          if (!principal || !who) return false;
          return matchesTag(principal, tag(keys, kid, "principal", who));
        },
        matchesRevision(etag) {
          if (!revision) return true;
          const version = etag === undefined ? undefined : encodeFields(etag);
          return version !== undefined && matchesTag(revision, tag(keys, kid, "revision", version));
        },
      };
    },
  };
}

const nonceLength = 24;
const idLength = 16;
const tagLength = 16;
/** How far the clock of the process that made a token may be ahead of ours. */
const maxAheadMs = 60_000;

const tokenGrammar = /^v1\.([a-z0-9]{2})\.([A-Za-z0-9_-]+)$/;
const tokenLengths: ReadonlySet<number> = new Set(
  claimsLengths.map(
    (length) => "v1.kk.".length + Math.ceil(((nonceLength + length + tagLength) * 4) / 3),
  ),
);

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

function canonicalAudience(audience: string): string {
  const url = URL.canParse(audience) ? new URL(audience) : undefined;
  if (!url || url.hash !== "" || url.username !== "" || url.password !== "")
    throw new TypeError(
      "token: the audience must be the server's absolute URL without user info or fragment",
    );
  return url.href;
}

function notFound(): SluiceError {
  return new SluiceError("not_found", "token: not valid here");
}
