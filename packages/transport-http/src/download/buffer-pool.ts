/** A buffer on loan. Give it back exactly once. */
interface BufferLoan {
  readonly buffer: Buffer;
  /** Returns it for reuse. */
  release(): void;
  /** Gives it up: the network may still be reading from it. */
  forget(): void;
}

/** Lends buffers to every transfer of the process, within one bound. */
export interface BufferPool {
  /**
   * A buffer for `bytes` bytes or fewer: a large one while there are some left, else a small one.
   * It never waits, so that readers that stall cannot hold up the others.
   */
  take(bytes: number): BufferLoan;
  /** Bytes of large buffers that exist now, lent or idle. */
  readonly pooledBytes: number;
}

/** Settings of {@link createBufferPool}, in bytes. */
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

/** Makes a pool. */
export function createBufferPool(options: BufferPoolOptions = {}): BufferPool {
  const { largeBytes = 256 * 1024, smallBytes = 64 * 1024 } = options;
  const { maxBytes = 16 * 1024 * 1024, idleBytes = 4 * 1024 * 1024 } = options;
  const idleLarge: Buffer[] = [];
  const idleSmall: Buffer[] = [];
  let pooledBytes = 0;

  function lend(buffer: Buffer): BufferLoan {
    const isLarge = buffer.length === largeBytes;
    let lent = true;
    const end = (isKept: boolean): void => {
      if (!lent) return;
      lent = false;
      if (isLarge && isKept) idleLarge.push(buffer);
      else if (isLarge) pooledBytes -= largeBytes;
      else if (isKept && (idleSmall.length + 1) * smallBytes <= idleBytes) idleSmall.push(buffer);
    };
    return { buffer, release: () => end(true), forget: () => end(false) };
  }

  return {
    get pooledBytes() {
      return pooledBytes;
    },
    take(bytes) {
      if (bytes > smallBytes) {
        const used = idleLarge.pop();
        if (used) return lend(used);
        if (pooledBytes + largeBytes <= maxBytes) {
          pooledBytes += largeBytes;
          return lend(Buffer.allocUnsafeSlow(largeBytes));
        }
      }
      return lend(idleSmall.pop() ?? Buffer.allocUnsafeSlow(smallBytes));
    },
  };
}
