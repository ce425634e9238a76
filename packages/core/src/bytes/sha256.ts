import { builtInModule } from "./built-in-module.ts";
import { portableSha256, type Sha256 } from "./portable-sha256.ts";

/** Starts a SHA-256 over bytes as they pass: native where the runtime has it, portable elsewhere. */
export function createSha256(): Sha256 {
  const crypto = builtInModule("node:crypto") as NativeCrypto | undefined;
  if (!crypto) return portableSha256();
  const native = crypto.createHash("sha256");
  return {
    update: (chunk) => void native.update(chunk),
    digest: () => native.digest("hex"),
  };
}

interface NativeCrypto {
  createHash(algorithm: "sha256"): {
    update(chunk: Uint8Array): unknown;
    digest(encoding: "hex"): string;
  };
}
