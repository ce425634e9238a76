import { builtInModule } from "./built-in-module.ts";
import { portableHmacSha256 } from "./portable-sha256.ts";

/** HMAC-SHA256 (RFC 2104), 32 bytes: native where the runtime has it, in a third of the time; portable elsewhere. */
export function hmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const crypto = builtInModule("node:crypto") as NativeHmac | undefined;
  if (!crypto) return portableHmacSha256(key, bytes);
  const native = crypto.createHmac("sha256", key);
  native.update(bytes);
  return native.digest();
}

/** 32 bytes derived from `key` for one purpose (HKDF-SHA256 without a salt, RFC 5869): a hash is one block. */
export function hkdfSha256(key: Uint8Array, info: string): Uint8Array {
  const extracted = hmacSha256(new Uint8Array(32), key);
  return hmacSha256(extracted, new TextEncoder().encode(`${info}\u0001`));
}

/** The part of `node:crypto` that is used. */
interface NativeHmac {
  createHmac(
    algorithm: "sha256",
    key: Uint8Array,
  ): {
    update(chunk: Uint8Array): unknown;
    digest(): Uint8Array;
  };
}
