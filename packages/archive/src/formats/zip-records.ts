/**
 * The records of a ZIP archive, byte by byte (PKWARE APPNOTE 6.3.10, section 4.3). Every file is stored without
 * compression, with its size and CRC behind its bytes, and a name in UTF-8. Numbers are little-endian.
 */

/** The record of a file. */
export interface ZipFile {
  /** UTF-8. */
  readonly name: Uint8Array;
  readonly modified: Date | undefined;
  /** The size may need 64 bits: chosen before the bytes, because the size of the descriptor depends on it. */
  readonly wide: boolean;
}

/** The facts of a file once its bytes are written. */
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
export function putLocalHeader(to: RecordWriter, { name, modified, wide }: ZipFile): void {
  const time = unixTime(modified);
  to.u32(0x04034b50);
  to.u16(wide ? wideVersion : plainVersion)
    .u16(flags)
    .u16(0);
  to.u32(dosTime(modified)).u32(0);
  to.u32(wide ? max32 : 0).u32(wide ? max32 : 0);
  to.u16(name.byteLength).u16((wide ? 20 : 0) + (time === undefined ? 0 : 9));
  to.bytes(name);
  if (wide) to.u16(1).u16(16).u64(0).u64(0);
  putTime(to, time);
}

/** Behind the bytes of a file (4.3.9). Gives its length. */
export function putDataDescriptor(to: RecordWriter, { crc, size, wide }: WrittenFile): number {
  const before = to.size;
  to.u32(0x08074b50).u32(crc);
  if (wide) to.u64(size).u64(size);
  else to.u32(size).u32(size);
  return to.size - before;
}

/** In the directory at the end (4.3.12). */
export function putDirectoryRecord(to: RecordWriter, file: WrittenFile): void {
  const { name, modified, crc, size, offset, wide } = file;
  const time = unixTime(modified);
  const wideBytes = (size >= max32 ? 16 : 0) + (offset >= max32 ? 8 : 0);
  // made by a Unix system, so that the attributes are read as its
  to.u32(0x02014b50).u16((3 << 8) | wideVersion);
  to.u16(wide || wideBytes > 0 ? wideVersion : plainVersion)
    .u16(flags)
    .u16(0);
  to.u32(dosTime(modified)).u32(crc).u32(Math.min(size, max32)).u32(Math.min(size, max32));
  to.u16(name.byteLength).u16((wideBytes > 0 ? 4 + wideBytes : 0) + (time === undefined ? 0 : 9));
  to.u16(0).u16(0).u16(0).u32(attributes).u32(Math.min(offset, max32));
  to.bytes(name);
  if (wideBytes > 0) to.u16(1).u16(wideBytes);
  if (size >= max32) to.u64(size).u64(size);
  if (offset >= max32) to.u64(offset);
  putTime(to, time);
}

/** The directory at the end. */
export interface Directory {
  readonly count: number;
  readonly size: number;
  readonly offset: number;
}

/** The end of the archive (4.3.14 to 4.3.16): above 65,534 files or 4 GiB with the records of ZIP64. */
export function putDirectoryEnd(to: RecordWriter, { count, size, offset }: Directory): void {
  if (count >= max16 || size >= max32 || offset >= max32) {
    to.u32(0x06064b50).u64(44);
    to.u16((3 << 8) | wideVersion)
      .u16(wideVersion)
      .u32(0)
      .u32(0);
    to.u64(count).u64(count).u64(size).u64(offset);
    to.u32(0x07064b50)
      .u32(0)
      .u64(offset + size)
      .u32(1);
  }
  to.u32(0x06054b50).u16(0).u16(0).u16(Math.min(count, max16)).u16(Math.min(count, max16));
  to.u32(Math.min(size, max32)).u32(Math.min(offset, max32)).u16(0);
}

/** The time in the field of Info-ZIP: an identifier, a length, what it has, seconds. */
function putTime(to: RecordWriter, seconds: number | undefined): void {
  if (seconds !== undefined) to.u16(0x5455).u16(5).u8(1).u32(seconds);
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

/**
 * Collects small records in one buffer, and copies them out together: its own array would cost each
 * record more than its bytes. Numbers are little-endian.
 */
export class RecordWriter {
  readonly #buffer: Uint8Array;
  readonly #view: DataView;
  #size = 0;

  /** `capacity`: most bytes between two calls of `take`. */
  constructor(capacity: number) {
    this.#buffer = new Uint8Array(capacity);
    this.#view = new DataView(this.#buffer.buffer);
  }

  /** Bytes since the last `take`. */
  get size(): number {
    return this.#size;
  }

  u8(value: number): this {
    this.#view.setUint8(this.#size, value);
    this.#size += 1;
    return this;
  }

  u16(value: number): this {
    this.#view.setUint16(this.#size, value, true);
    this.#size += 2;
    return this;
  }

  u32(value: number): this {
    this.#view.setUint32(this.#size, value, true);
    this.#size += 4;
    return this;
  }

  u64(value: number): this {
    this.#view.setBigUint64(this.#size, BigInt(value), true);
    this.#size += 8;
    return this;
  }

  bytes(value: Uint8Array): this {
    this.#buffer.set(value, this.#size);
    this.#size += value.byteLength;
    return this;
  }

  /** The bytes written since the last call, as a copy. */
  take(): Uint8Array {
    const records = this.#buffer.slice(0, this.#size);
    this.#size = 0;
    return records;
  }
}
