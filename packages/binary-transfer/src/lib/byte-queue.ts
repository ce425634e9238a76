const smallBytes = 4_096;
const tailBytes = 16_384;

/**
 * Chunks in order. Small ones are copied together, so that what is held costs about what it counts:
 * a byte that is a view of a large buffer would keep all of it.
 */
export class ByteQueue {
  readonly #chunks: Uint8Array[] = [];
  /** Buffer of the last chunk while it has room, and how much of it is filled. */
  #tail: Uint8Array | undefined;
  #filled = 0;
  #bytes = 0;

  /** Bytes in the queue. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a chunk, which belongs to the queue from now on. */
  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#bytes += chunk.length;
    if (chunk.length >= smallBytes) {
      this.#tail = undefined;
      this.#chunks.push(chunk);
    } else this.#copy(chunk);
  }

  /** Takes the first chunk. */
  shift(): Uint8Array | undefined {
    const chunk = this.#chunks.shift();
    if (this.#chunks.length === 0) this.#tail = undefined;
    this.#bytes -= chunk?.length ?? 0;
    return chunk;
  }

  clear(): void {
    this.#chunks.length = 0;
    this.#tail = undefined;
    this.#bytes = 0;
  }

  #copy(chunk: Uint8Array): void {
    if (!this.#tail || this.#filled + chunk.length > tailBytes) {
      this.#tail = new Uint8Array(tailBytes);
      this.#filled = 0;
      this.#chunks.push(this.#tail);
    }
    this.#tail.set(chunk, this.#filled);
    this.#filled += chunk.length;
    this.#chunks[this.#chunks.length - 1] = this.#tail.subarray(0, this.#filled);
  }
}
