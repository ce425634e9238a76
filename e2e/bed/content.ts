import { createCipheriv, createHash } from "node:crypto";

/** The same `size` bytes for the same seed, without a pattern that a wrong offset could hide in. */
export function bytesOf(size: number, seed: string): Buffer {
  const key = createHash("sha256").update(seed).digest();
  return createCipheriv("aes-256-ctr", key, Buffer.alloc(16)).update(Buffer.alloc(size));
}

/** Lower-case hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
