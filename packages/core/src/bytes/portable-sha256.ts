import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** A running SHA-256 (FIPS 180-4). */
export interface Sha256 {
  /** Adds bytes; the chunk may be reused afterwards. */
  update(chunk: Uint8Array): void;
  /** Ends the computation: lower-case hex, 64 characters. Call it once, last. */
  digest(): string;
}

/** A running SHA-256 for runtimes without `node:crypto`. */
export function portableSha256(): Sha256 {
  const hash = sha256.create();
  return {
    update: (chunk) => void hash.update(chunk),
    digest: () => bytesToHex(hash.digest()),
  };
}

/** HMAC-SHA256 for runtimes without `node:crypto`. */
export function portableHmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  return hmac(sha256, key, bytes);
}

/** HKDF-SHA256 for runtimes without `node:crypto`. */
export function portableHkdfSha256(key: Uint8Array, info: string): Uint8Array {
  return hkdf(sha256, key, undefined, utf8ToBytes(info), 32);
}
