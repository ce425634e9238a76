import { encodeBase64 } from "./base64.ts";

/** Bytes of content as JSON carries them: base64, many times faster where the runtime has a `Buffer`. */
export function encodeBlob(bytes: Uint8Array): string {
  const { Buffer } = globalThis as { Buffer?: typeof globalThis.Buffer };
  if (!Buffer) return encodeBase64(bytes);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}
