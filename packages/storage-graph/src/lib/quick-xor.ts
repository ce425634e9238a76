/**
 * Microsoft's QuickXorHash of bytes that come in order. Not cryptographic. Each byte is xored into 160 bits, 11 bits
 * further on than the one before; the length is xored into the last 64 bits.
 */
export class QuickXor {
  // bytes whose places are the same, each 160th, meet each other first
  readonly #columns = new Uint8Array(160);
  #length = 0;

  update(bytes: Uint8Array): void {
    const columns = this.#columns;
    let column = this.#length % 160;
    for (let at = 0; at < bytes.length; at++) {
      columns[column]! ^= bytes[at]!;
      column = column === 159 ? 0 : column + 1;
    }
    this.#length += bytes.length;
  }

  /** In base64, as Graph names it. */
  digest(): string {
    const hash = Buffer.alloc(20);
    for (const [column, byte] of this.#columns.entries()) {
      const place = (column * 11) % 160;
      const moved = byte << (place % 8);
      hash[place >> 3]! ^= moved & 255;
      hash[((place >> 3) + 1) % 20]! ^= moved >> 8;
    }
    const end = Buffer.alloc(8);
    end.writeBigUInt64LE(BigInt(this.#length));
    for (const [at, byte] of end.entries()) hash[12 + at]! ^= byte;
    return hash.toString("base64");
  }
}
