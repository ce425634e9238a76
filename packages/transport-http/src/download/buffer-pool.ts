/** A buffer on loan. Give it back exactly once. */
interface BufferLoan {
  readonly buffer: Buffer;
  release(): void;
  /** Drops it without reuse, because the network may still be reading from it. */
  forget(): void;
}

interface BufferPoolOptions {
  /** Size of a large buffer. Default 256 KiB: throughput grows with it up to there. */
  readonly largeBytes?: number;
  /** Size of what is lent when the large ones are all out. Default 64 KiB. */
  readonly smallBytes?: number;
  /**
   * Maximum bytes in large buffers. Default 16 MiB: more would not make many transfers faster. All of them stay for
   * the next transfer, since dropped ones go on taking room until they are collected.
   */
  readonly maxBytes?: number;
  /** Maximum bytes in small buffers kept while they are not used. Default 4 MiB. */
  readonly idleBytes?: number;
}

/** Where transfers take their memory from. */
export type BufferLender = Pick<BufferPool, "take">;

/** Lends buffers to every transfer of the process, within one bound. */
export class BufferPool {
  readonly #largeBytes: number;
  readonly #smallBytes: number;
  readonly #maxBytes: number;
  readonly #idleBytes: number;
  readonly #idleLarge: Buffer[] = [];
  readonly #idleSmall: Buffer[] = [];
  #pooledBytes = 0;

  constructor(options: BufferPoolOptions = {}) {
    const { largeBytes = 256 * 1024, smallBytes = 64 * 1024 } = options;
    this.#largeBytes = largeBytes;
    this.#smallBytes = smallBytes;
    const { maxBytes = 16 * 1024 * 1024, idleBytes = 4 * 1024 * 1024 } = options;
    this.#maxBytes = maxBytes;
    this.#idleBytes = idleBytes;
  }

  /** Bytes of large buffers that exist now, lent or idle. */
  get pooledBytes(): number {
    return this.#pooledBytes;
  }

  /**
   * A buffer for `bytes` bytes or fewer: a large one while there are some left, else a small one.
   * It never waits, so that readers that stall cannot hold up the others.
   */
  take(bytes: number): BufferLoan {
    if (bytes > this.#smallBytes) {
      const idle = this.#idleLarge.pop();
      if (idle) return this.#lend(idle);
      if (this.#pooledBytes + this.#largeBytes <= this.#maxBytes) {
        this.#pooledBytes += this.#largeBytes;
        return this.#lend(Buffer.allocUnsafeSlow(this.#largeBytes));
      }
    }
    return this.#lend(this.#idleSmall.pop() ?? Buffer.allocUnsafeSlow(this.#smallBytes));
  }

  #lend(buffer: Buffer): BufferLoan {
    const isLarge = buffer.length === this.#largeBytes;
    let lent = true;
    const end = (isKept: boolean): void => {
      if (!lent) return;
      lent = false;
      if (isLarge && isKept) this.#idleLarge.push(buffer);
      else if (isLarge) this.#pooledBytes -= this.#largeBytes;
      else if (isKept && (this.#idleSmall.length + 1) * this.#smallBytes <= this.#idleBytes)
        this.#idleSmall.push(buffer);
    };
    return { buffer, release: () => end(true), forget: () => end(false) };
  }
}
