/** Bits of the hash, and by how many each byte is shifted further than the one before. */
const width = 160n;
const shift = 11n;

/**
 * Microsoft's QuickXorHash in base64: each byte is xored into 160 bits, 11 bits further on, around
 * the end; the length is xored into the last 64 bits. Not cryptographic.
 */
export function quickXorHash(bytes: Uint8Array): string {
  // bytes whose places are the same (every 160th) meet each other first
  const columns = new Uint8Array(Number(width));
  for (let i = 0; i < bytes.length; i++) columns[i % columns.length]! ^= bytes[i]!;
  const mask = (1n << width) - 1n;
  let hash = 0n;
  for (const [i, byte] of columns.entries()) {
    const place = (BigInt(i) * shift) % width;
    const moved = BigInt(byte) << place;
    hash ^= (moved & mask) | (moved >> width);
  }
  hash ^= BigInt(bytes.length) << (width - 64n);
  const out = new Uint8Array(Number(width / 8n));
  for (let i = 0; i < out.length; i++) out[i] = Number((hash >> BigInt(8 * i)) & 0xffn);
  return Buffer.from(out).toString("base64");
}
