import { equalBytes } from "@noble/ciphers/utils.js";
import type { GrantUse, TokenPurpose } from "./token-lifetime.ts";

/** The claims of a token as its bytes have them. */
export interface RawClaims {
  /** 16 random bytes. */
  readonly id: Uint8Array;
  /** What the token is for, as its purpose encodes it: 1 to `maxKeyBytes` UTF-8 bytes. */
  readonly key: string;
  readonly use: GrantUse;
  /** Unix milliseconds, whole seconds. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** 32 bytes that stand for the session it was made in; absent if there is none. */
  readonly session?: Uint8Array | undefined;
  /** 16 bytes that only the same key and principal give; absent in a self-authenticating token. */
  readonly principal?: Uint8Array | undefined;
  /** 16 bytes that only the same key and etag give; absent when the version does not matter. */
  readonly etag?: Uint8Array | undefined;
}

/** The lengths in bytes that claims have: the length tells next to nothing about the key. Only links have the last two. */
export const claimsLengths: readonly number[] = [144, 480, 1_152, 2_960, 16_448];

/** Maximum UTF-8 bytes of a key: that of a link also names a principal. A URL of 4 KiB passes every client and proxy. */
export function maxKeyBytes(purpose: TokenPurpose, isStored: boolean): number {
  if (purpose !== "link") return 1_040;
  return isStored ? 16_384 : 2_900;
}

/** Claims as bytes, padded with zeros to the smallest length that holds them. */
export function encodeClaims(claims: RawClaims, maxKey: number): Uint8Array {
  const key = encoder.encode(claims.key);
  if (key.length < 1 || key.length > maxKey)
    throw new TypeError(`token: a key has 1 to ${maxKey} UTF-8 bytes`);
  if (!Object.hasOwn(useFlags, claims.use))
    throw new TypeError('token: a use is "window", "once" or "lease"');
  const { session, principal, etag } = claims;
  const bytes = new Uint8Array(claimsLengthOf(key.length, session !== undefined));
  const view = new DataView(bytes.buffer);
  view.setUint8(
    at.flags,
    useFlags[claims.use] |
      (principal ? 0 : bearerFlag) |
      (session ? sessionBoundFlag : 0) |
      (etag ? etagBoundFlag : 0),
  );
  view.setUint32(at.issuedAt, claims.issuedAt / 1_000);
  view.setUint32(at.expiresAt, claims.expiresAt / 1_000);
  bytes.set(claims.id, at.id);
  if (principal) bytes.set(principal, at.principal);
  if (etag) bytes.set(etag, at.etag);
  view.setUint16(at.keyLength, key.length);
  bytes.set(key, at.key);
  if (session) bytes.set(session, at.key + key.length);
  return bytes;
}

/** Claims from bytes; `undefined` unless they are exactly as `encodeClaims` writes them. */
export function decodeClaims(bytes: Uint8Array, maxKey: number): RawClaims | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const use = uses[view.getUint8(at.flags) & useMask];
  const length = view.getUint16(at.keyLength);
  if (use === undefined || length < 1 || length > maxKey) return undefined;
  const keyEnd = at.key + length;
  const key = decodeText(bytes.subarray(at.key, keyEnd));
  if (key === undefined) return undefined;
  const claims: RawClaims = {
    id: bytes.slice(at.id, at.principal),
    key,
    use,
    issuedAt: view.getUint32(at.issuedAt) * 1_000,
    expiresAt: view.getUint32(at.expiresAt) * 1_000,
    session: tagIn(bytes, keyEnd, keyEnd + sessionLength),
    principal: tagIn(bytes, at.principal, at.etag),
    etag: tagIn(bytes, at.etag, at.keyLength),
  };
  // only a principal is held to a session
  if (claims.session && !claims.principal) return undefined;
  // flags, padding and text have one spelling
  return equalBytes(encodeClaims(claims, maxKey), bytes) ? claims : undefined;
}

function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The tag in a place of claims; `undefined` for zeros, and for a place that is not there. */
function tagIn(bytes: Uint8Array, start: number, end: number): Uint8Array | undefined {
  if (end > bytes.length) return undefined;
  const tag = bytes.slice(start, end);
  return tag.some((byte) => byte !== 0) ? tag : undefined;
}

const sessionLength = 32;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Offsets; numbers are big-endian. The session, if there is one, follows the key. */
const at = {
  flags: 0,
  issuedAt: 1,
  expiresAt: 5,
  id: 9,
  principal: 25,
  etag: 41,
  keyLength: 57,
  key: 59,
} as const;

const bearerFlag = 1;
const useFlags: Readonly<Record<GrantUse, number>> = { window: 0, once: 2, lease: 4 };
const useMask = 6;
const uses: readonly (GrantUse | undefined)[] = ["window", undefined, "once", undefined, "lease"];
const sessionBoundFlag = 8;
const etagBoundFlag = 16;

/** The padded length of claims whose key has this many bytes. */
export function claimsLengthOf(keyLength: number, hasSession = false): number {
  const needed = at.key + keyLength + (hasSession ? sessionLength : 0);
  return claimsLengths.find((length) => needed <= length)!;
}
