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
  const crypto = builtInModule("node:crypto") as NativeCrypto | undefined;
  const native = crypto?.createHash("sha256");
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

/** The part of `node:crypto` that is used. */
interface NativeCrypto {
  createHash(algorithm: "sha256"): {
    update(chunk: Uint8Array): unknown;
    digest(encoding: "hex"): string;
  };
}
