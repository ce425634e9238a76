import type { ArchiveEntry } from "../entries/archive-file.ts";
import { crc32 } from "./crc32.ts";
import {
  dataDescriptor,
  directoryEnd,
  directoryRecord,
  localHeader,
  max32,
  type WrittenFile,
} from "./zip-records.ts";

const encoder = new TextEncoder();
const blockBytes = 64 * 1024;
const smallBytes = 16 * 1024;

/**
 * Writes entries as a ZIP archive. Nothing is known ahead: CRC and size follow each file. Keeps the directory
 * until the end, about 60 bytes and the name for each file.
 */
export async function* writeZip(
  entries: AsyncIterable<ArchiveEntry>,
): AsyncGenerator<Uint8Array, undefined> {
  const directory = createBlocks();
  let count = 0;
  let offset = 0;
  for await (const { path, size: told, modified, chunks } of entries) {
    const file = {
      name: encoder.encode(path),
      modified,
      wide: told === undefined || told >= max32,
    };
    const header = localHeader(file);
    // a small file leaves as one chunk with its records
    let held = [header];
    let size = 0;
    let crc = 0;
    for await (const chunk of chunks) {
      crc = crc32(chunk, crc);
      size += chunk.byteLength;
      if (size <= smallBytes) held.push(chunk);
      else {
        if (held.length > 0) yield concat(held);
        held = [];
        yield chunk;
      }
    }
    const written: WrittenFile = { ...file, size, crc, offset };
    const descriptor = dataDescriptor(written);
    yield concat([...held, descriptor]);
    directory.append(directoryRecord(written));
    offset += header.byteLength + size + descriptor.byteLength;
    count++;
  }
  yield* directory.all();
  yield directoryEnd({ count, size: directory.size(), offset });
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.byteLength;
  }
  return all;
}

interface Blocks {
  append(record: Uint8Array): void;
  /** Bytes of all records. */
  size(): number;
  /** The records in their order. */
  all(): readonly Uint8Array[];
}

/** Packs small records, because an array of its own costs each of them more than its bytes. */
function createBlocks(): Blocks {
  const full: Uint8Array[] = [];
  let block = new Uint8Array(blockBytes);
  let used = 0;
  let size = 0;
  return {
    append(record) {
      if (used + record.byteLength > blockBytes) {
        full.push(block.subarray(0, used));
        block = new Uint8Array(blockBytes);
        used = 0;
      }
      block.set(record, used);
      used += record.byteLength;
      size += record.byteLength;
    },
    size: () => size,
    all: () => [...full, block.subarray(0, used)],
  };
}
