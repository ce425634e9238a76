import { hexToBytes } from "@noble/hashes/utils.js";

/**
 * Says what shows that 32 bytes are no random key; `undefined` when nothing does. A truly random
 * key is refused less than once in 2^40.
 */
export function keyWeakness(key: Uint8Array): string | undefined {
  if (hasConstantStep(key)) return "is one repeated byte or a simple sequence";
  if (isPeriodic(key)) return "repeats itself";
  if (new Set(key).size < 12) return "has too few different bytes";
  if (key.every((byte) => byte >= 0x20 && byte < 0x7f)) return "is text, not 32 random bytes";
  if (knownKeys.some((known) => known.every((byte, at) => byte === key[at])))
    return "is a published example";
  return undefined;
}

function hasConstantStep(key: Uint8Array): boolean {
  const step = (key[1]! - key[0]!) & 0xff;
  return key.every((byte, at) => at === 0 || ((byte - key[at - 1]!) & 0xff) === step);
}

function isPeriodic(key: Uint8Array): boolean {
  return [2, 4, 8, 16].some((period) => key.every((byte, at) => byte === key[at % period]));
}

// keys that stand in the documents people copy from: NIST SP 800-38A (AES-256), RFC 8032 (two), FIPS 197 is a sequence
const knownKeys: readonly Uint8Array[] = [
  "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
  "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
  "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
].map(hexToBytes);
