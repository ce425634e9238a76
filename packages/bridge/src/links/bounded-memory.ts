import { createMemoryBackend, type ObjectInfo, type OpenedObject } from "@sluice/storage";
import {
  beginOperation,
  createBody,
  createWriter,
  ensureCondition,
  withBody,
} from "@sluice/storage/plugin";
import { SluiceError } from "@sluice/core";
import { fullFault, type WritableStorage } from "./result-hold.ts";

/** What the operator can do where it is full. */
export const memoryAdvice = "raise --max-held, or name a storage with --results-to";

/** A storage that knows what it takes. */
interface BoundedMemory extends WritableStorage {
  usedBytes(): number;
}

/** Objects in memory, of at most `maxBytes` together, including those being written or still being read. */
export function createBoundedMemory(maxBytes: number): BoundedMemory {
  const backend = createMemoryBackend();
  const objects = new Map<string, Kept>();
  let usedBytes = 0;
  const room: MemoryRoom = {
    reserve(bytes) {
      if (usedBytes + bytes > maxBytes) throw fullFault(maxBytes, memoryAdvice);
      usedBytes += bytes;
    },
    release: (bytes) => (usedBytes -= bytes),
  };

  function forget(key: string): void {
    const old = objects.get(key);
    objects.delete(key);
    if (!old) return;
    old.isRemoved = true;
    if (old.readers === 0) old.blocks.clear();
  }

  return {
    name: "memory",
    usedBytes: () => usedBytes,
    describe: (key, options) => backend.describe(key, options),
    list: (options) => backend.list(options),
    async open(key, options) {
      const opened = await backend.open(key, options);
      const found = objects.get(key);
      return found ? countReader(opened, found) : opened;
    },
    async write(key, options = {}) {
      const operation = beginOperation("memory: write", key, options);
      const ensureCurrent = (): void => ensureCondition(objects.get(key)?.info, options, operation);
      ensureCurrent();
      const blocks = createMemoryBlocks(room);
      let isPublished = false;
      const driver = {
        append: async (chunk: Uint8Array) => blocks.append(chunk),
        async publish() {
          ensureCurrent();
          blocks.trim();
          forget(key);
          const info = backend.put(key, blocks);
          objects.set(key, { info, blocks, readers: 0, isRemoved: false });
          isPublished = true;
          return info;
        },
        async release() {
          if (!isPublished) blocks.clear();
        },
      };
      const { size, signal } = options;
      return createWriter(() => driver, { operation, size, signal });
    },
    async remove(key, options) {
      await backend.remove(key, options);
      forget(key);
    },
    close: () => backend.close(),
  };
}

/** An object that has come whole. */
interface Kept {
  readonly info: ObjectInfo;
  readonly blocks: MemoryBlocks;
  readers: number;
  isRemoved: boolean;
}

/** The same object; its memory is free when it was removed and the last body of it has ended. */
function countReader(opened: OpenedObject, kept: Kept): OpenedObject {
  const { info, range } = opened;
  return withBody({ info, range }, () => {
    kept.readers += 1;
    const reader = opened.body.getReader();
    return createBody({
      next: async () => (await reader.read()).value,
      async release(reason) {
        await reader.cancel(reason).catch(() => {});
        kept.readers -= 1;
        if (kept.isRemoved && kept.readers === 0) kept.blocks.clear();
      },
    });
  });
}

/** Bytes in memory that grow at their end. */
interface MemoryBlocks {
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
interface MemoryRoom {
  /** Throws `no_space` if the bytes have no room. */
  reserve(bytes: number): void;
  release(bytes: number): void;
}

const [smallest, largest] = [4_096, 2 ** 20];

/**
 * Makes blocks that are as large as all before them together, up to 1 MiB: small results take little, and the bytes of
 * tiny chunks lie together. Memory counts as it is taken, not as it is filled.
 */
function createMemoryBlocks(room: MemoryRoom): MemoryBlocks {
  let blocks: Uint8Array[] = [];
  /** Where each block begins. */
  let starts: number[] = [];
  let size = 0;
  let takenBytes = 0;

  function grow(): void {
    const bytes = Math.min(Math.max(size, smallest), largest);
    room.reserve(bytes);
    takenBytes += bytes;
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
        if (size === takenBytes) grow();
        const part = chunk.subarray(at, at + takenBytes - size);
        blocks.at(-1)!.set(part, size - starts.at(-1)!);
        size += part.length;
        at += part.length;
      }
    },
    trim() {
      const last = blocks.pop();
      if (!last) return;
      const filledBytes = size - starts.at(-1)!;
      // a copy: a part of the block would hold all of it
      blocks.push(last.slice(0, filledBytes));
      room.release(last.length - filledBytes);
      takenBytes = size;
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
      room.release(takenBytes);
      takenBytes = 0;
      size = 0;
    },
  };
}
