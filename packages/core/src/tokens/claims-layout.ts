import type { GrantUse, TokenAuth } from "./token-lifetime.ts";

/** The claims of a token as its bytes have them. */
export interface RawClaims {
  /** 16 random bytes. */
  readonly id: Uint8Array;
  /** 1 to 1,040 UTF-8 bytes: a storage key, and the prefix of its mount. */
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

/** How the holder of a token with these claims proves itself. */
export function authOf(claims: RawClaims): TokenAuth {
  return claims.principal ? "bound" : "self";
}

/** The three lengths in bytes that claims have: the length tells next to nothing about the key. */
export const claimsLengths: readonly number[] = [144, 480, 1_152];

/** Claims as bytes, padded with zeros to the smallest length that holds them. */
export function encodeClaims(claims: RawClaims): Uint8Array {
  const key = encoder.encode(claims.key);
  if (key.length < 1 || key.length > maxKeyBytes)
    throw new TypeError(`token: a key has 1 to ${maxKeyBytes} UTF-8 bytes`);
  if (!Object.hasOwn(useFlags, claims.use))
    throw new TypeError('token: a use is "window", "once" or "lease"');
  const { session } = claims;
  const bytes = new Uint8Array(claimsLength(key.length, session !== undefined));
  const view = new DataView(bytes.buffer);
  view.setUint8(
    at.flags,
    useFlags[claims.use] |
      (claims.principal ? 0 : bearerFlag) |
      (session ? sessionBoundFlag : 0) |
      (claims.etag ? etagBoundFlag : 0),
  );
  view.setUint32(at.issuedAt, claims.issuedAt / 1_000);
  view.setUint32(at.expiresAt, claims.expiresAt / 1_000);
  bytes.set(claims.id, at.id);
  if (claims.principal) bytes.set(claims.principal, at.principal);
  if (claims.etag) bytes.set(claims.etag, at.etag);
  view.setUint16(at.keyLength, key.length);
  bytes.set(key, at.key);
  if (session) bytes.set(session, at.key + key.length);
  return bytes;
}

/** Claims from bytes; `undefined` unless they are exactly as `encodeClaims` writes them. */
export function decodeClaims(bytes: Uint8Array): RawClaims | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const flags = view.getUint8(at.flags);
  const use = uses[flags & useMask];
  const isBearer = (flags & bearerFlag) !== 0;
  const sessionBound = (flags & sessionBoundFlag) !== 0;
  const etagBound = (flags & etagBoundFlag) !== 0;
  if (flags > allFlags || use === undefined || (isBearer && sessionBound)) return undefined;
  const principal = bytes.slice(at.principal, at.etag);
  const etag = bytes.slice(at.etag, at.keyLength);
  if (isZero(principal) !== isBearer || isZero(etag) === etagBound) return undefined;
  const length = view.getUint16(at.keyLength);
  if (length < 1 || length > maxKeyBytes) return undefined;
  if (claimsLength(length, sessionBound) !== bytes.length) return undefined;
  const keyEnd = at.key + length;
  const key = decodeText(bytes.subarray(at.key, keyEnd));
  const end = keyEnd + (sessionBound ? sessionLength : 0);
  const session = bytes.slice(keyEnd, end);
  if (key === undefined || !isZero(bytes.subarray(end))) return undefined;
  if (sessionBound && isZero(session)) return undefined;
  return {
    id: bytes.slice(at.id, at.principal),
    key,
    use,
    issuedAt: view.getUint32(at.issuedAt) * 1_000,
    expiresAt: view.getUint32(at.expiresAt) * 1_000,
    session: sessionBound ? session : undefined,
    principal: isBearer ? undefined : principal,
    etag: etagBound ? etag : undefined,
  };
}

const maxKeyBytes = 1_040;
const sessionLength = 32;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Offsets; numbers are big-endian. The session, where there is one, lies behind the key. */
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
const allFlags = 31;

function claimsLength(keyLength: number, hasSession: boolean): number {
  const needed = at.key + keyLength + (hasSession ? sessionLength : 0);
  return claimsLengths.find((length) => needed <= length)!;
}

function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}
