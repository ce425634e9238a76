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

interface BoundedMemory extends WritableStorage {
  usedBytes(): number;
}

/** Objects in memory, of at most `maxBytes` together, including those being written or still being read. */
export function boundedMemory(maxBytes: number): BoundedMemory {
  const backend = createMemoryBackend();
  const objects = new Map<string, MemoryObject>();
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
      const object = objects.get(key);
      return object ? countReader(opened, object) : opened;
    },
    async write(key, options = {}) {
      const operation = beginOperation("memory: write", key, options);
      const ensureCurrent = (): void => ensureCondition(objects.get(key)?.info, options, operation);
      ensureCurrent();
      const blocks = new MemoryBlocks(room);
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

interface MemoryObject {
  readonly info: ObjectInfo;
  readonly blocks: MemoryBlocks;
  readers: number;
  isRemoved: boolean;
}

/** The same object; its memory is free when it was removed and the last body of it has ended. */
function countReader(opened: OpenedObject, object: MemoryObject): OpenedObject {
  const { info, range } = opened;
  return withBody({ info, range }, () => {
    object.readers += 1;
    const reader = opened.body.getReader();
    return createBody({
      next: async () => (await reader.read()).value,
      async release(reason) {
        await reader.cancel(reason).catch(() => {});
        object.readers -= 1;
        if (object.isRemoved && object.readers === 0) object.blocks.clear();
      },
    });
  });
}

interface MemoryRoom {
  /** Throws `no_space` if the bytes have no room. */
  reserve(bytes: number): void;
  release(bytes: number): void;
}

const [smallest, largest] = [4_096, 2 ** 20];

/**
 * Bytes in memory that grow at their end, in blocks that are as large as all before them together, up to 1 MiB: small
 * results take little, and the bytes of tiny chunks lie together. Memory counts as it is taken, not as it is filled.
 */
class MemoryBlocks {
  readonly #room: MemoryRoom;
  #blocks: Uint8Array[] = [];
  #starts: number[] = [];
  #size = 0;
  #takenBytes = 0;

  constructor(room: MemoryRoom) {
    this.#room = room;
  }

  get size(): number {
    return this.#size;
  }

  /** Copies a chunk. Throws what `reserve` throws, and has part of the chunk then. */
  append(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#size === this.#takenBytes) this.#grow();
      const part = chunk.subarray(at, at + this.#takenBytes - this.#size);
      this.#blocks.at(-1)!.set(part, this.#size - this.#starts.at(-1)!);
      this.#size += part.length;
      at += part.length;
    }
  }

  /** Gives back what the last block has too much. */
  trim(): void {
    const last = this.#blocks.pop();
    if (!last) return;
    const filledBytes = this.#size - this.#starts.at(-1)!;
    // a copy: a part of the block would hold all of it
    this.#blocks.push(last.slice(0, filledBytes));
    this.#room.release(last.length - filledBytes);
    this.#takenBytes = this.#size;
  }

  /** A copy of the bytes `[start, end)`. Throws `interrupted` after `clear`. */
  read(start: number, end: number): Uint8Array {
    if (end > this.#size) throw new SluiceError("interrupted", "memory: the object was removed");
    const bytes = new Uint8Array(end - start);
    for (let at = start, index = this.#blockAt(start); at < end; index++) {
      const from = at - this.#starts[index]!;
      const part = this.#blocks[index]!.subarray(from, from + end - at);
      bytes.set(part, at - start);
      at += part.length;
    }
    return bytes;
  }

  /** Frees everything. Idempotent. */
  clear(): void {
    this.#blocks = [];
    this.#starts = [];
    this.#room.release(this.#takenBytes);
    this.#takenBytes = 0;
    this.#size = 0;
  }

  #grow(): void {
    const bytes = Math.min(Math.max(this.#size, smallest), largest);
    this.#room.reserve(bytes);
    this.#takenBytes += bytes;
    this.#blocks.push(new Uint8Array(bytes));
    this.#starts.push(this.#size);
  }

  #blockAt(position: number): number {
    let [low, high] = [0, this.#starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle]! <= position) low = middle;
      else high = middle;
    }
    return low;
  }
}
