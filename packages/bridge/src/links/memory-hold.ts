import { createBoundedMemory, memoryAdvice } from "./bounded-memory.ts";
import { createHold } from "./create-hold.ts";
import type { ResultHold } from "./result-hold.ts";

/** Options of {@link createMemoryHold}. */
export interface MemoryHoldOptions {
  /** Most bytes of memory that results take together. Default: 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** How long a result is kept, in milliseconds. Its link may keep it longer. Default: 15 minutes. */
  readonly maxAgeMs?: number | undefined;
}

/**
 * Keeps large results in the memory of this process: nothing is written, and links end with the process. A result that
 * has no room fails with `no_space`. Throws a `RangeError` for an option that is no number above 0.
 */
export function createMemoryHold(options: MemoryHoldOptions = {}): ResultHold {
  const { maxBytes = 256 * 2 ** 20, maxAgeMs = 15 * 60_000 } = options;
  const storage = createBoundedMemory(maxBytes);
  return createHold({
    storage,
    usedBytes: () => storage.usedBytes(),
    maxBytes,
    advice: memoryAdvice,
    maxAgeMs,
    isShared: false,
    faultOf: (error) => error,
    onError() {},
  });
}
