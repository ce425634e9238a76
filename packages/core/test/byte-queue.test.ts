import * as fc from "fast-check";
import { expect, test } from "vitest";
import { ByteQueue } from "@sluice/core/internal";

/** Bytes of memory that chunks keep alive. */
function memoryOf(chunks: readonly Uint8Array[]): number {
  const buffers = new Set(chunks.map(({ buffer }) => buffer));
  return [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
}

test(
  "a queue gives the bytes that it was given, in memory of at most five times their number",
  { tags: "slow" },
  () => {
    const sizes = fc.array(fc.oneof(fc.constant(1), fc.nat(200), fc.nat(20_000)), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(sizes, fc.boolean(), (lengths, joined) => {
        const queue = new ByteQueue();
        const given: number[] = [];
        for (const length of lengths) {
          const chunk = Uint8Array.from({ length }, (_, at) => (given.length + at) % 251);
          given.push(...chunk);
          // a copied chunk is the caller's again
          if (queue.push(chunk)) chunk.fill(255);
        }
        expect(queue.bytes).toBe(given.length);
        const chunks = joined ? [queue.join()] : queue.take();
        expect(memoryOf(chunks)).toBeLessThanOrEqual(5 * given.length + 16_384);
        expect(Buffer.concat(chunks).equals(Buffer.from(given))).toBe(true);
        expect(queue.bytes).toBe(0);
        expect(queue.shift()).toBeUndefined();
      }),
    );
  },
);

test("a view of one byte does not keep the buffer that it lies in", () => {
  const queue = new ByteQueue();
  for (let at = 0; at < 1_000; at++) queue.push(new Uint8Array(65_536).subarray(at, at + 1));
  expect(memoryOf(queue.take())).toBe(16_384);
});
