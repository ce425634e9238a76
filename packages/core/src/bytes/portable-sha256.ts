import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { Sha256 } from "./sha256.ts";

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
