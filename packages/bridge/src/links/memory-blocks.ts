import { SluiceError } from "@sluice/core";

/** Bytes in memory that grow at their end. */
export interface MemoryBlocks {
  readonly size: number;
  /** Copies a chunk. Throws what `reserve` throws, and has part of the chunk then. */
  append(chunk: Uint8Array): void;
  /** Gives back what the last block has too much. */
  trim(): void;
  /** A copy of the bytes `[start, end)`. Throws `interrupted` after `clear`. */
  read(start: number, end: number): Uint8Array;
  /** Frees everything. Idempotent. */
  clear(): void;
}

/** Counts the memory of all blocks. */
export interface MemoryRoom {
  /** Throws `no_space` where so many bytes have no room. */
  reserve(bytes: number): void;
  release(bytes: number): void;
}

const [smallest, largest] = [4_096, 2 ** 20];

/**
 * Makes blocks that are as large as all before them together, up to 1 MiB: small results take little, and the bytes of
 * tiny chunks lie together. Memory counts as it is taken, not as it is filled.
 */
export function createMemoryBlocks(room: MemoryRoom): MemoryBlocks {
  let blocks: Uint8Array[] = [];
  /** Where each block begins. */
  let starts: number[] = [];
  let size = 0;
  let taken = 0;

  function grow(): void {
    const bytes = Math.min(Math.max(size, smallest), largest);
    room.reserve(bytes);
    taken += bytes;
    blocks.push(new Uint8Array(bytes));
    starts.push(size);
  }

  function blockAt(position: number): number {
    let [low, high] = [0, starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle]! <= position) low = middle;
      else high = middle;
    }
    return low;
  }

  return {
    get size() {
      return size;
    },
    append(chunk) {
      for (let at = 0; at < chunk.length;) {
        if (size === taken) grow();
        const part = chunk.subarray(at, at + taken - size);
        blocks.at(-1)!.set(part, size - starts.at(-1)!);
        size += part.length;
        at += part.length;
      }
    },
    trim() {
      const last = blocks.pop();
      if (!last) return;
      const filled = size - starts.at(-1)!;
      // a copy: a part of the block would hold all of it
      blocks.push(last.slice(0, filled));
      room.release(last.length - filled);
      taken = size;
    },
    read(start, end) {
      if (end > size) throw new SluiceError("interrupted", "memory: the object was removed");
      const bytes = new Uint8Array(end - start);
      for (let at = start, index = blockAt(start); at < end; index++) {
        const from = at - starts[index]!;
        const part = blocks[index]!.subarray(from, from + end - at);
        bytes.set(part, at - start);
        at += part.length;
      }
      return bytes;
    },
    clear() {
      blocks = [];
      starts = [];
      room.release(taken);
      taken = 0;
      size = 0;
    },
  };
}
