import { builtInModule } from "./built-in-module.ts";
import { portableHkdfSha256, portableHmacSha256 } from "./portable-sha256.ts";

/** HMAC-SHA256 (RFC 2104), 32 bytes: native where the runtime has it, in a third of the time; portable elsewhere. */
export function hmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const crypto = builtInModule("node:crypto") as NativeHmac | undefined;
  if (!crypto) return portableHmacSha256(key, bytes);
  const native = crypto.createHmac("sha256", key);
  native.update(bytes);
  return native.digest();
}

/** 32 bytes derived from `key` for one purpose: HKDF-SHA256 without a salt (RFC 5869). */
export function hkdfSha256(key: Uint8Array, info: string): Uint8Array {
  const crypto = builtInModule("node:crypto") as NativeHmac | undefined;
  if (!crypto) return portableHkdfSha256(key, info);
  return new Uint8Array(crypto.hkdfSync("sha256", key, "", info, 32));
}

interface NativeHmac {
  hkdfSync(hash: string, key: Uint8Array, salt: string, info: string, bytes: number): ArrayBuffer;
  createHmac(
    algorithm: "sha256",
    key: Uint8Array,
  ): {
    update(chunk: Uint8Array): unknown;
    digest(): Uint8Array;
  };
}
