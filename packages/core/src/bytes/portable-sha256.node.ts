import type { Sha256 } from "./portable-sha256.ts";

/** Stands in the build for Node.js, which has `node:crypto`: it loads no library for SHA-256. */
export function portableSha256(): Sha256 {
  throw missing();
}

/** As {@link portableSha256}. */
export function portableHmacSha256(_key: Uint8Array, _bytes: Uint8Array): Uint8Array {
  throw missing();
}

/** As {@link portableSha256}. */
export function portableHkdfSha256(_key: Uint8Array, _info: string): Uint8Array {
  throw missing();
}

function missing(): Error {
  return new TypeError(
    "SHA-256: process.getBuiltinModule is missing; use Node.js 20.19, or resolve without the condition node",
  );
}
