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
