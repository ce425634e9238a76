import type { GeneratedContent } from "../memory/memory-backend.ts";

/**
 * Content for {@link Fixture.putLarge} that costs no space: zeros, and `tail` at their very end. For stand-ins that
 * compute what they send.
 */
export function createLargeContent(size: number, tail: Uint8Array): GeneratedContent {
  const tailAt = size - tail.byteLength;
  return {
    size,
    read(start, end) {
      const bytes = new Uint8Array(end - start);
      const from = Math.max(start, tailAt);
      if (end > from) bytes.set(tail.subarray(from - tailAt, end - tailAt), from - start);
      return bytes;
    },
  };
}
