import { builtInModule } from "@sluice/core/internal";
import type { ArchiveEntry } from "../entries/read-entries.ts";
import { RecordWriter } from "./zip-records.ts";
import {
  max32,
  putDataDescriptor,
  putDirectoryEnd,
  putDirectoryRecord,
  putLocalHeader,
  type WrittenFile,
} from "./zip-records.ts";

const encoder = new TextEncoder();
/** More than the records of one file have, with a path of 900 bytes twice over. */
const recordBytes = 2 * 1024;
/** A file of at most this many bytes leaves as one chunk with its records. */
const smallBytes = 16 * 1024;
/** The directory is kept in parts of about this size. */
const partBytes = 64 * 1024;

/**
 * Writes entries as a ZIP archive. Nothing is known ahead: CRC and size follow each file. Keeps the directory
 * until the end, about 60 bytes and the name for each file.
 */
export async function* writeZip(
  entries: AsyncIterable<ArchiveEntry>,
): AsyncGenerator<Uint8Array, undefined> {
  const out = new RecordWriter(smallBytes + 2 * recordBytes);
  const directory = new RecordWriter(partBytes + recordBytes);
  const parts: Uint8Array[] = [];
  const nameBuffer = new Uint8Array(recordBytes);
  let count = 0;
  let offset = 0;
  for await (const { path, size: reportedSize, modified, chunks } of entries) {
    const name = nameBuffer.subarray(0, encoder.encodeInto(path, nameBuffer).written);
    const wide = reportedSize === undefined || reportedSize >= max32;
    putLocalHeader(out, { name, modified, wide });
    const headerBytes = out.size;
    let size = 0;
    let crc = 0;
    for await (const chunk of chunks) {
      crc = crc32(chunk, crc);
      size += chunk.byteLength;
      if (size <= smallBytes) out.bytes(chunk);
      else {
        if (out.size > 0) yield out.take();
        yield chunk;
      }
    }
    const written: WrittenFile = { name, modified, wide, size, crc, offset };
    const descriptorBytes = putDataDescriptor(out, written);
    yield out.take();
    putDirectoryRecord(directory, written);
    if (directory.size >= partBytes) parts.push(directory.take());
    offset += headerBytes + size + descriptorBytes;
    count++;
  }
  parts.push(directory.take());
  yield* parts;
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0);
  putDirectoryEnd(out, { count, size, offset });
  yield out.take();
}

/** CRC-32 of ISO 3309, as in ZIP: of `bytes` after those whose CRC is `before`. */
type Crc32 = (bytes: Uint8Array, before: number) => number;

/** Native where the runtime has it, about ten times as fast; portable elsewhere. */
export const crc32: Crc32 =
  (builtInModule("node:zlib") as { readonly crc32?: Crc32 } | undefined)?.crc32 ?? portableCrc32;

/** The same in JavaScript. */
export function portableCrc32(bytes: Uint8Array, before: number): number {
  let crc = ~before;
  for (const byte of bytes) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff]!;
  return ~crc >>> 0;
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});
