/** Bytes of content as JSON carries them: base64 with padding. */
export function encodeBlob(bytes: Uint8Array): string {
  // many times faster, where the runtime has it
  const { Buffer } = globalThis as { Buffer?: typeof globalThis.Buffer };
  if (Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
  const step = 0x8000;
  let binary = "";
  for (let at = 0; at < bytes.length; at += step)
    binary += String.fromCharCode(...bytes.subarray(at, at + step));
  return btoa(binary);
}
