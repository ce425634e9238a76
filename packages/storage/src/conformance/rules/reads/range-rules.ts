import assert from "node:assert/strict";
import type { ByteRange } from "@sluice/core";
import type { StorageBackend } from "../../../contract/backend.ts";
import { assertBytes, expectCode, pattern, readBody, readKey, text } from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";

const size = 600_000;
const content = pattern(size);

/** Opens the range and holds bytes and resolved range against what they must be. */
async function checkSlice(
  backend: StorageBackend,
  range: ByteRange,
  start: number,
  end: number,
): Promise<void> {
  const opened = await backend.open("range.bin", { range });
  assertBytes(await readBody(opened.body), content.subarray(start, end));
  assert.deepEqual(opened.range, { start, end }, "the resolved range");
}

/** One rule about one range of the same object. */
function slice(id: string, sentence: string, range: ByteRange, start: number, end: number): Rule {
  return rule({
    id,
    sentence,
    async check({ backend, put }) {
      await put("range.bin", content);
      await checkSlice(backend, range, start, end);
    },
  });
}

/** Pages and chunks of implementations. */
const chunks = [4, 64, 256, 512].map((kib) => kib * 1024);

/** Parts of objects: half-open, like `slice`. */
export const rangeRules: readonly Rule[] = [
  slice("range-first", "the first byte is [0, 1)", { start: 0, end: 1 }, 0, 1),
  slice(
    "range-last",
    "the last byte is [size - 1, size)",
    { start: size - 1, end: size },
    size - 1,
    size,
  ),
  slice("range-middle", "a range in the middle", { start: 1000, end: 2001 }, 1000, 2001),
  slice(
    "range-open-ended",
    "without an end it goes to the end",
    { start: size - 777 },
    size - 777,
    size,
  ),
  slice(
    "range-clamped",
    "an end beyond the object is clamped, and the resolved range says so",
    { start: size - 5, end: size + 1_000_000 },
    size - 5,
    size,
  ),
  rule({
    id: "range-whole",
    sentence: "the whole as a range is still a range, with an end and without one",
    async check({ backend, put }) {
      await put("range.bin", content);
      for (const range of [{ start: 0, end: size }, { start: 0 }])
        await checkSlice(backend, range, 0, size);
    },
  }),
  rule({
    id: "range-nothing",
    sentence: "a range of no bytes within the object is an empty body, not a longer one",
    async check({ backend, put }) {
      await put("range.bin", content);
      for (const at of [0, 1000]) await checkSlice(backend, { start: at, end: at }, at, at);
    },
  }),
  rule({
    id: "range-beyond",
    sentence: "a start at or beyond the end is range_not_satisfiable and tells the size",
    async check({ backend, put, traits }) {
      await put("range.bin", content);
      for (const range of [
        { start: size },
        { start: size + 1 },
        { start: size, end: size },
        { start: size + 1, end: size + 9 },
      ]) {
        const error = await expectCode(
          () => backend.open("range.bin", { range }),
          "range_not_satisfiable",
        );
        if (!traits?.withoutSize) assert.equal(error["size"], size);
      }
    },
  }),
  rule({
    id: "range-of-empty",
    sentence: "no range of an empty object is satisfiable",
    async check({ backend, put }) {
      await put("empty.bin", new Uint8Array());
      for (const range of [{ start: 0 }, { start: 0, end: 1 }, { start: 0, end: 0 }])
        await expectCode(() => backend.open("empty.bin", { range }), "range_not_satisfiable");
    },
  }),
  rule({
    id: "range-large",
    sentence: "offsets beyond 2^31 and 2^32 are exact",
    needs: ["fixture.putLarge"],
    async check({ backend, putLarge }) {
      const large = 2 ** 32 + 5000;
      const tail = pattern(3000);
      await putLarge("large.bin", large, tail);
      const middle = { start: 2 ** 31 + 1, end: 2 ** 31 + 11 };
      const opened = await backend.open("large.bin", { range: middle });
      assertBytes(await readBody(opened.body), new Uint8Array(10));
      assert.deepEqual(opened.range, middle, "the resolved range");
      const range = { start: large - 2000, end: large - 1000 };
      assertBytes(await readKey(backend, "large.bin", { range }), tail.subarray(1000, 2000));
    },
  }),
  rule({
    id: "range-chunk",
    sentence: "ranges that are exactly one chunk, or a byte more or less, are right",
    async check({ backend, put }) {
      await put("range.bin", content);
      for (const chunk of [64 * 1024, 256 * 1024, 512 * 1024])
        for (const end of [chunk - 1, chunk, chunk + 1])
          await checkSlice(backend, { start: 3, end: 3 + end }, 3, 3 + end);
    },
  }),
  rule({
    id: "range-aligned",
    sentence: "ranges that begin or end where a chunk does, or a byte beside, are right",
    async check({ backend, put }) {
      await put("range.bin", content);
      for (const at of chunks)
        for (const [start, end] of [
          [at - 1, at],
          [at, at + 1],
          [at - 1, at + 1],
          [at - 2, at - 1],
          [0, at],
          [0, at + 1],
          [at - 4096, at],
          [at, at + 4096],
          [at - 10, at + 10],
          [at, size],
          [at + 1, size],
        ] as const)
          await checkSlice(backend, { start, end }, start, end);
    },
  }),
  rule({
    id: "range-every",
    sentence: "every range of a few bytes is right",
    async check({ backend, put }) {
      await put("few.bin", content.subarray(0, 5));
      for (let start = 0; start < 5; start++)
        for (let end = start; end <= 5; end++) {
          const opened = await backend.open("few.bin", { range: { start, end } });
          assertBytes(
            await readBody(opened.body),
            content.subarray(start, end),
            `[${start}, ${end})`,
          );
          assert.deepEqual(opened.range, { start, end }, "the resolved range");
        }
    },
  }),
  rule({
    id: "range-malformed",
    sentence: "an invalid range is invalid_argument, and nothing is asked",
    async check({ backend, put, countRequests }) {
      await put("range.bin", content);
      const before = countRequests?.();
      for (const range of [
        { start: 5, end: 4 },
        { start: -1 },
        { start: 0, end: -1 },
        { start: 0.5 },
        { start: 0, end: 1.5 },
        { start: Number.NaN },
        { start: 2 ** 53 },
      ])
        await expectCode(() => backend.open("range.bin", { range }), "invalid_argument");
      assert.equal(countRequests?.(), before, "a request was sent");
    },
  }),
  rule({
    id: "range-size",
    sentence: "with a range, the size is still that of the whole object",
    needs: ["size"],
    async check({ backend, put }) {
      await put("range.bin", content);
      const { info, body } = await backend.open("range.bin", { range: { start: 10, end: 20 } });
      await body.cancel();
      assert.equal(info.size, size);
    },
  }),
  rule({
    id: "range-ignored",
    sentence: "when the service ignores a range its answer is sliced or refused, never passed on",
    needs: ["fault.ignoreRange"],
    async check({ backend, put, faults }) {
      await put("range.bin", content);
      faults.ignoreRange();
      let bytes: Uint8Array;
      try {
        bytes = await readKey(backend, "range.bin", { range: { start: 100, end: 200 } });
      } catch {
        return;
      }
      assertBytes(bytes, content.subarray(100, 200));
    },
  }),
  rule({
    id: "range-adjacent",
    sentence: "adjacent ranges together are the whole",
    async check({ backend, put }) {
      await put("adjacent.txt", text("0123456789".repeat(100)));
      const parts: Uint8Array[] = [];
      for (let start = 0; start < 1000; start += 37)
        parts.push(await readKey(backend, "adjacent.txt", { range: { start, end: start + 37 } }));
      assertBytes(Buffer.concat(parts), text("0123456789".repeat(100)));
    },
  }),
];
