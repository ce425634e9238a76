/**
 * The records of a ZIP archive, byte by byte (PKWARE APPNOTE 6.3.10, section 4.3). Every file is stored without
 * compression, with its size and CRC behind its bytes, and a name in UTF-8. Numbers are little-endian.
 */

/** What the record of a file says. */
export interface ZipFile {
  /** UTF-8. */
  readonly name: Uint8Array;
  readonly modified: Date | undefined;
  /** The size may need 64 bits: chosen before the bytes, because the size of the descriptor depends on it. */
  readonly wide: boolean;
}

/** What is known of a file once its bytes are written. */
export interface WrittenFile extends ZipFile {
  readonly size: number;
  readonly crc: number;
  /** Where its local header begins. */
  readonly offset: number;
}

/** From this on a number of 32 bits moves to a ZIP64 field (4.4.1.4). */
export const max32 = 0xffff_ffff;
const max16 = 0xffff;

const wideVersion = 45;
const plainVersion = 20;
/** Bit 3: CRC and sizes are in the descriptor. Bit 11: the name is UTF-8. */
const flags = (1 << 3) | (1 << 11);
/** An ordinary file that its owner writes and all read, as Unix keeps it. */
const attributes = 0o100644 * 0x10000;

/** Before the bytes of a file (4.3.7). */
export function localHeader({ name, modified, wide }: ZipFile): Uint8Array {
  const time = unixTime(modified);
  const extra = (wide ? 20 : 0) + (time === undefined ? 0 : 9);
  const put = writer(30 + name.byteLength + extra);
  put
    .u32(0x04034b50)
    .u16(wide ? wideVersion : plainVersion)
    .u16(flags)
    .u16(0);
  put.u32(dosTime(modified)).u32(0);
  put.u32(wide ? max32 : 0).u32(wide ? max32 : 0);
  put.u16(name.byteLength).u16(extra).bytes(name);
  if (wide) put.u16(1).u16(16).u64(0).u64(0);
  if (time !== undefined) put.u16(0x5455).u16(5).u8(1).u32(time);
  return put.record;
}

/** Behind the bytes of a file (4.3.9). */
export function dataDescriptor({ crc, size, wide }: WrittenFile): Uint8Array {
  const put = writer(wide ? 24 : 16);
  put.u32(0x08074b50).u32(crc);
  if (wide) put.u64(size).u64(size);
  else put.u32(size).u32(size);
  return put.record;
}

/** In the directory at the end (4.3.12). */
export function directoryRecord(file: WrittenFile): Uint8Array {
  const { name, modified, crc, size, offset } = file;
  const time = unixTime(modified);
  const wideFields = [...(size >= max32 ? [size, size] : []), ...(offset >= max32 ? [offset] : [])];
  const extra =
    (wideFields.length > 0 ? 4 + 8 * wideFields.length : 0) + (time === undefined ? 0 : 9);
  const put = writer(46 + name.byteLength + extra);
  // made by a Unix system, so that the attributes are read as its
  put.u32(0x02014b50).u16((3 << 8) | wideVersion);
  put
    .u16(file.wide || wideFields.length > 0 ? wideVersion : plainVersion)
    .u16(flags)
    .u16(0);
  put.u32(dosTime(modified)).u32(crc).u32(Math.min(size, max32)).u32(Math.min(size, max32));
  put.u16(name.byteLength).u16(extra).u16(0).u16(0).u16(0);
  put.u32(attributes).u32(Math.min(offset, max32)).bytes(name);
  if (wideFields.length > 0) put.u16(1).u16(8 * wideFields.length);
  for (const field of wideFields) put.u64(field);
  if (time !== undefined) put.u16(0x5455).u16(5).u8(1).u32(time);
  return put.record;
}

/** What the directory at the end is. */
export interface Directory {
  readonly count: number;
  readonly size: number;
  readonly offset: number;
}

/** The end of the archive (4.3.14 to 4.3.16): above 65,534 files or 4 GiB with the records of ZIP64. */
export function directoryEnd({ count, size, offset }: Directory): Uint8Array {
  const wide = count >= max16 || size >= max32 || offset >= max32;
  const put = writer(wide ? 56 + 20 + 22 : 22);
  if (wide) {
    put
      .u32(0x06064b50)
      .u64(44)
      .u16((3 << 8) | wideVersion)
      .u16(wideVersion)
      .u32(0)
      .u32(0);
    put.u64(count).u64(count).u64(size).u64(offset);
    put
      .u32(0x07064b50)
      .u32(0)
      .u64(offset + size)
      .u32(1);
  }
  put.u32(0x06054b50).u16(0).u16(0).u16(Math.min(count, max16)).u16(Math.min(count, max16));
  put.u32(Math.min(size, max32)).u32(Math.min(offset, max32)).u16(0);
  return put.record;
}

/** Date and time of the DOS fields, in UTC: 1980 to 2107, in steps of two seconds. */
function dosTime(modified: Date | undefined): number {
  const date = modified ?? new Date(0);
  const year = date.getUTCFullYear();
  if (!(year >= 1980)) return (1 << 21) | (1 << 16);
  if (year > 2107) return ((127 << 25) | (12 << 21) | (31 << 16)) >>> 0;
  const day = ((year - 1980) << 25) | ((date.getUTCMonth() + 1) << 21) | (date.getUTCDate() << 16);
  const time =
    (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1);
  return (day | time) >>> 0;
}

/** Seconds since 1970 for the field of Info-ZIP, which gives the time without a zone; `undefined` out of its range. */
function unixTime(modified: Date | undefined): number | undefined {
  const seconds = Math.floor((modified?.getTime() ?? Number.NaN) / 1000);
  return seconds >= 0 && seconds <= 0x7fff_ffff ? seconds : undefined;
}

interface RecordWriter {
  readonly record: Uint8Array;
  u8(value: number): RecordWriter;
  u16(value: number): RecordWriter;
  u32(value: number): RecordWriter;
  u64(value: number): RecordWriter;
  bytes(value: Uint8Array): RecordWriter;
}

function writer(size: number): RecordWriter {
  const record = new Uint8Array(size);
  const view = new DataView(record.buffer);
  let at = 0;
  const put: RecordWriter = {
    record,
    u8(value) {
      view.setUint8(at, value);
      at += 1;
      return put;
    },
    u16(value) {
      view.setUint16(at, value, true);
      at += 2;
      return put;
    },
    u32(value) {
      view.setUint32(at, value, true);
      at += 4;
      return put;
    },
    u64(value) {
      view.setBigUint64(at, BigInt(value), true);
      at += 8;
      return put;
    },
    bytes(value) {
      record.set(value, at);
      at += value.byteLength;
      return put;
    },
  };
  return put;
}
