import type { GrantUse } from "./grant.ts";
import type { TokenAuth } from "./token-lifetime.ts";

/** What stands inside the seal. */
export interface TokenClaims {
  /** 16 random bytes. */
  readonly id: Uint8Array;
  /** 1 to 1,024 UTF-8 bytes. */
  readonly handle: string;
  readonly use: GrantUse;
  /** Unix milliseconds, whole seconds. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** 32 bytes that stand for the session it was made in; absent where there is none. */
  readonly session?: Uint8Array;
  /** 16 bytes that only the same key and principal give; absent in a self-authenticating token. */
  readonly principal?: Uint8Array;
  /** 16 bytes that only the same key and etag give; absent when the version does not matter. */
  readonly revision?: Uint8Array;
}

/** How the holder of a token with these claims proves itself. */
export function authOf(claims: TokenClaims): TokenAuth {
  return claims.principal ? "bound" : "self";
}

/** The three lengths in bytes that claims have: the length tells next to nothing about the handle. */
export const claimsLengths: readonly number[] = [144, 480, 1_152];

/** Claims as bytes, padded with zeros to the smallest length that holds them. */
export function encodeClaims(claims: TokenClaims): Uint8Array {
  const handle = encoder.encode(claims.handle);
  if (handle.length < 1 || handle.length > maxHandleBytes)
    throw new TypeError(`token: a handle has 1 to ${maxHandleBytes} UTF-8 bytes`);
  if (!Object.hasOwn(useFlags, claims.use))
    throw new TypeError('token: a use is "window", "once" or "lease"');
  const { session } = claims;
  const bytes = new Uint8Array(claimsLength(handle.length, session !== undefined));
  const view = new DataView(bytes.buffer);
  view.setUint8(
    at.flags,
    useFlags[claims.use] |
      (claims.principal ? 0 : bearerFlag) |
      (session ? sessionBoundFlag : 0) |
      (claims.revision ? revisionPinnedFlag : 0),
  );
  view.setUint32(at.issuedAt, claims.issuedAt / 1_000);
  view.setUint32(at.expiresAt, claims.expiresAt / 1_000);
  bytes.set(claims.id, at.id);
  if (claims.principal) bytes.set(claims.principal, at.principal);
  if (claims.revision) bytes.set(claims.revision, at.revision);
  view.setUint16(at.handleLength, handle.length);
  bytes.set(handle, at.handle);
  if (session) bytes.set(session, at.handle + handle.length);
  return bytes;
}

/** Claims from bytes; `undefined` unless they are exactly as `encodeClaims` writes them. */
export function decodeClaims(bytes: Uint8Array): TokenClaims | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const flags = view.getUint8(at.flags);
  const use = uses[flags & useMask];
  const isBearer = (flags & bearerFlag) !== 0;
  const sessionBound = (flags & sessionBoundFlag) !== 0;
  const isPinned = (flags & revisionPinnedFlag) !== 0;
  if (flags > allFlags || use === undefined || (isBearer && sessionBound)) return undefined;
  const principal = bytes.slice(at.principal, at.revision);
  const revision = bytes.slice(at.revision, at.handleLength);
  if (isZero(principal) !== isBearer || isZero(revision) === isPinned) return undefined;
  const length = view.getUint16(at.handleLength);
  if (length < 1 || length > maxHandleBytes) return undefined;
  if (claimsLength(length, sessionBound) !== bytes.length) return undefined;
  const handleEnd = at.handle + length;
  const handle = decodeText(bytes.subarray(at.handle, handleEnd));
  const end = handleEnd + (sessionBound ? sessionLength : 0);
  const session = bytes.slice(handleEnd, end);
  if (handle === undefined || !isZero(bytes.subarray(end))) return undefined;
  if (sessionBound && isZero(session)) return undefined;
  return {
    id: bytes.slice(at.id, at.principal),
    handle,
    use,
    issuedAt: view.getUint32(at.issuedAt) * 1_000,
    expiresAt: view.getUint32(at.expiresAt) * 1_000,
    ...(sessionBound && { session }),
    ...(!isBearer && { principal }),
    ...(isPinned && { revision }),
  };
}

const maxHandleBytes = 1_024;
const sessionLength = 32;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Offsets; numbers are big-endian. The session, where there is one, lies behind the handle. */
const at = {
  flags: 0,
  issuedAt: 1,
  expiresAt: 5,
  id: 9,
  principal: 25,
  revision: 41,
  handleLength: 57,
  handle: 59,
} as const;

const bearerFlag = 1;
const useFlags: Readonly<Record<GrantUse, number>> = { window: 0, once: 2, lease: 4 };
const useMask = 6;
const uses: readonly (GrantUse | undefined)[] = ["window", undefined, "once", undefined, "lease"];
const sessionBoundFlag = 8;
const revisionPinnedFlag = 16;
const allFlags = 31;

function claimsLength(handleLength: number, hasSession: boolean): number {
  const needed = at.handle + handleLength + (hasSession ? sessionLength : 0);
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
