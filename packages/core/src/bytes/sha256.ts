import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { builtInModule } from "./built-in-module.ts";

/** A running SHA-256 (FIPS 180-4). */
export interface Sha256 {
  /** Adds bytes; the chunk may be reused afterwards. */
  update(chunk: Uint8Array): void;
  /** Ends the computation: lower-case hex, 64 characters. Call it once, last. */
  digest(): string;
}

/** Starts a SHA-256 over bytes as they pass: native where the runtime has it, portable elsewhere. */
export function createSha256(): Sha256 {
  const native = nativeCrypto()?.createHash("sha256");
  if (native)
    return {
      update: (chunk) => void native.update(chunk),
      digest: () => native.digest("hex"),
    };
  const hash = sha256.create();
  return {
    update: (chunk) => void hash.update(chunk),
    digest: () => bytesToHex(hash.digest()),
  };
}

/** HMAC-SHA256 (RFC 2104), 32 bytes: native where the runtime has it, a third of the time; portable elsewhere. */
export function hmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const native = nativeCrypto()?.createHmac("sha256", key);
  if (!native) return hmac(sha256, key, bytes);
  native.update(bytes);
  return native.digest();
}

function nativeCrypto(): NativeCrypto | undefined {
  return builtInModule("node:crypto") as NativeCrypto | undefined;
}

/** The part of `node:crypto` that is used. */
interface NativeCrypto {
  createHash(algorithm: "sha256"): {
    update(chunk: Uint8Array): unknown;
    digest(encoding: "hex"): string;
  };
  createHmac(
    algorithm: "sha256",
    key: Uint8Array,
  ): {
    update(chunk: Uint8Array): unknown;
    digest(): Uint8Array;
  };
}
