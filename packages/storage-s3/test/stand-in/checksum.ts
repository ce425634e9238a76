import { createHash } from "node:crypto";

/** Reflected polynomials of 32 and 64 bits. */
const crc32Polynomial = 0xedb88320;
const crc32cPolynomial = 0x82f63b78;
const crc64NvmePolynomial = 0x9a6c9329ac4bc9b5n;

const algorithms: Readonly<Record<string, (bytes: Uint8Array) => Buffer>> = {
  crc32: (bytes) => crc32Of(bytes, crc32Polynomial),
  crc32c: (bytes) => crc32Of(bytes, crc32cPolynomial),
  crc64nvme: crc64Of,
  sha1: (bytes) => createHash("sha1").update(bytes).digest(),
  sha256: (bytes) => createHash("sha256").update(bytes).digest(),
};

/** The checksum as S3 writes it; `undefined` for an algorithm that is not known. */
export function checksumOf(algorithm: string, bytes: Uint8Array): string | undefined {
  return algorithms[algorithm]?.(bytes).toString("base64");
}

function crc32Of(bytes: Uint8Array, polynomial: number): Buffer {
  const table = Uint32Array.from({ length: 256 }, (_, index) => {
    let value = index;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ polynomial : value >>> 1;
    return value;
  });
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 0xff] ?? 0);
  const result = Buffer.alloc(4);
  result.writeUInt32BE((crc ^ 0xffffffff) >>> 0);
  return result;
}

function crc64Of(bytes: Uint8Array): Buffer {
  const table = BigUint64Array.from({ length: 256 }, (_, index) => {
    let value = BigInt(index);
    for (let bit = 0; bit < 8; bit++)
      value = value & 1n ? (value >> 1n) ^ crc64NvmePolynomial : value >> 1n;
    return value;
  });
  const ones = 0xffffffffffffffffn;
  let crc = ones;
  for (const byte of bytes) crc = (crc >> 8n) ^ (table[Number((crc ^ BigInt(byte)) & 0xffn)] ?? 0n);
  const result = Buffer.alloc(8);
  result.writeBigUInt64BE(crc ^ ones);
  return result;
}
