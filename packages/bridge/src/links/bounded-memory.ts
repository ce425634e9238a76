import { createMemoryBackend, type ObjectInfo, type OpenedObject } from "@sluice/storage";
import {
  beginOperation,
  createBody,
  createWriter,
  ensureCondition,
  withBody,
} from "@sluice/storage/plugin";
import { fullFault } from "./hold-fault.ts";
import type { WritableStorage } from "./writable-storage.ts";
import { createMemoryBlocks, type MemoryBlocks, type MemoryRoom } from "./memory-blocks.ts";

/** What the operator can do where it is full. */
export const memoryAdvice = "raise --max-held, or name a storage with --results-to";

/** A storage that knows what it takes. */
export interface BoundedMemory extends WritableStorage {
  usedBytes(): number;
}

/** Objects in memory, of at most so many bytes together: also what is being written, and what is still being read. */
export function createBoundedMemory(maxBytes: number): BoundedMemory {
  const backend = createMemoryBackend();
  const kept = new Map<string, Kept>();
  let usedBytes = 0;
  const room: MemoryRoom = {
    reserve(bytes) {
      if (usedBytes + bytes > maxBytes) throw fullFault(maxBytes, memoryAdvice);
      usedBytes += bytes;
    },
    release: (bytes) => (usedBytes -= bytes),
  };

  function forget(key: string): void {
    const old = kept.get(key);
    kept.delete(key);
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
      const found = kept.get(key);
      return found ? countReader(opened, found) : opened;
    },
    async write(key, options = {}) {
      const operation = beginOperation("memory: write", key, options);
      const ensureCurrent = (): void => ensureCondition(kept.get(key)?.info, options, operation);
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
          kept.set(key, { info, blocks, readers: 0, isRemoved: false });
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
