const smallBytes = 4_096;
const tailBytes = 16_384;

/**
 * Chunks in order, in memory of at most about five times their bytes. It copies chunks below 4 KiB together: a view
 * of one byte costs hundreds of bytes itself, and keeps the whole buffer that it lies in.
 */
export class ByteQueue {
  readonly #chunks: Uint8Array[] = [];
  /** Memory of the last chunk while it has room, and how much of it is filled. */
  #tail: Uint8Array | undefined;
  #filled = 0;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a chunk. True: it was copied, and its memory is the caller's again. False: the queue keeps it. */
  push(chunk: Uint8Array): boolean {
    this.#bytes += chunk.length;
    if (chunk.length >= smallBytes) {
      this.#tail = undefined;
      this.#chunks.push(chunk);
      return false;
    }
    if (chunk.length > 0) this.#copy(chunk);
    return true;
  }

  shift(): Uint8Array | undefined {
    const chunk = this.#chunks.shift();
    if (this.#chunks.length === 0) this.#tail = undefined;
    this.#bytes -= chunk?.length ?? 0;
    return chunk;
  }

  /** Takes everything as one chunk. */
  join(): Uint8Array<ArrayBuffer> {
    const size = this.#bytes;
    return joinChunks(this.take(), size);
  }

  take(): Uint8Array[] {
    const chunks = this.#chunks.splice(0);
    this.clear();
    return chunks;
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

/** Chunks as one, of `size` bytes. */
export function joinChunks(chunks: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
