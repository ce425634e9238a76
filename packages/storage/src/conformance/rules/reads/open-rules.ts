import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import {
  assertBytes,
  assertFacts,
  expectCode,
  expectMember,
  oneMiB,
  pattern,
  readBody,
  readKey,
  text,
} from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";

const kib = 1024;

/** Sizes at which implementations like to be off by one: pages, chunks and parts, exactly, and a byte less or more. */
const sizes = [4 * kib, 64 * kib, 256 * kib, 512 * kib, oneMiB]
  .flatMap((size) => [size - 1, size, size + 1])
  .concat(1, 2, 8 * kib, 128 * kib, 2 * oneMiB);

/** Contents that implementations like to trim, to skip or to unpack. */
const fragile: Readonly<Record<string, Uint8Array>> = {
  "zeros at the end": Buffer.concat([pattern(100), new Uint8Array(8 * kib)]),
  "only zeros": new Uint8Array(64 * kib),
  "zeros in the middle": Buffer.concat([pattern(64 * kib), new Uint8Array(64 * kib), text("end")]),
  "line ends and spaces at the end": text("text \t\r\n\n\n"),
  "only line ends": text("\n\n"),
  "gzip without a coding": gzipSync("packed ".repeat(1000)),
  "NUL in text": text("text\0 goes on"),
};

/** Whole objects. */
export const openRules: readonly Rule[] = [
  rule({
    id: "open-bytes",
    sentence: "open gives the bytes that were stored, and no range",
    async check({ backend, put }) {
      await put("bytes.bin", pattern(10_000));
      const { body, range } = await backend.open("bytes.bin");
      assertBytes(await readBody(body), pattern(10_000));
      assert.equal(range, undefined, "a whole object has no range");
    },
  }),
  rule({
    id: "open-empty",
    sentence: "an empty object gives no chunk and a clean end",
    async check({ backend, put }) {
      await put("empty.bin", new Uint8Array());
      const reader = (await backend.open("empty.bin")).body.getReader();
      const { done } = await reader.read();
      assert.equal(done, true, "a chunk came");
    },
  }),
  rule({
    id: "open-size",
    sentence: "the size that open tells is the number of bytes that come",
    needs: ["size"],
    async check({ backend, put }) {
      await put("size.bin", pattern(54_321));
      const { info, body } = await backend.open("size.bin");
      assert.equal(info.size, (await readBody(body)).byteLength);
    },
  }),
  rule({
    id: "open-info",
    sentence: "open tells the same about an object as describe, even of a range and with ifMatch",
    async check({ backend, put, putTyped }) {
      const type = { contentType: "text/plain; charset=utf-8", contentEncoding: "gzip" };
      await (putTyped ?? put)("info/object.bin", pattern(1000), type);
      const described = await backend.describe("info/object.bin");
      const { etag: ifMatch } = described;
      for (const options of [{}, { range: { start: 10, end: 20 } }, ifMatch ? { ifMatch } : {}]) {
        const { info, body } = await backend.open("info/object.bin", options);
        await body.cancel();
        for (const fact of ["key", "etag", "contentType", "contentEncoding"] as const)
          assert.equal(info[fact], described[fact], fact);
        assertFacts(info, described, "open");
      }
    },
  }),
  rule({
    id: "open-parallel",
    sentence: "two bodies of one object are read independently of each other",
    async check({ backend, put }) {
      const content = pattern(700_000);
      await put("parallel.bin", content);
      const readers = [];
      for (const { body } of [
        await backend.open("parallel.bin"),
        await backend.open("parallel.bin"),
      ])
        readers.push({ reader: body.getReader(), chunks: [] as Uint8Array[], ended: false });
      while (readers.some(({ ended }) => !ended))
        for (const state of readers) {
          const { done, value } = await state.reader.read();
          if (done) state.ended = true;
          else state.chunks.push(value);
        }
      for (const { chunks } of readers) assertBytes(Buffer.concat(chunks), content);
    },
  }),
  rule({
    id: "open-chunks",
    sentence: "no object length meets a chunk boundary badly",
    async check({ backend, put }) {
      for (const size of sizes) {
        await put("chunks.bin", pattern(size, size));
        assertBytes(await readKey(backend, "chunks.bin"), pattern(size, size), `${size} bytes`);
      }
    },
  }),
  rule({
    id: "open-chunks-owned",
    sentence: "the reader owns the chunks: what it does to them changes no later read",
    async check({ backend, put }) {
      for (const size of [4000, 300_000]) {
        await put("owned.bin", pattern(size));
        // a store may keep an object in memory only at its second read
        for (let n = 0; n < 4; n++)
          for (const [options, start] of [
            [{}, 0],
            [{ range: { start: 100 } }, 100],
          ] as const) {
            const { body } = await backend.open("owned.bin", options);
            const chunks: Uint8Array[] = [];
            for await (const chunk of body) chunks.push(chunk);
            const what = "after a reader filled its chunks with zeros";
            assertBytes(Buffer.concat(chunks), pattern(size).subarray(start), what);
            for (const chunk of chunks) chunk.fill(0);
          }
      }
    },
  }),
  rule({
    id: "open-binary",
    sentence:
      "every byte survives, even line ends, zeros and byte order marks at either end, and packed ones",
    async check({ backend, put }) {
      const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      const marks = new Uint8Array([
        0xef, 0xbb, 0xbf, 0x0d, 0x0a, 0x0a, 0x0d, 0, 0, 0xff, 0xfe, 0x1a,
      ]);
      const content = Buffer.concat([marks, all, marks]);
      await put("binary.txt", content);
      assertBytes(await readKey(backend, "binary.txt"), content);
      for (const [what, bytes] of Object.entries(fragile)) {
        await put("binary.txt", bytes);
        assertBytes(await readKey(backend, "binary.txt"), bytes, what);
      }
    },
  }),
  rule({
    id: "open-types",
    sentence: "JSON, text and images are not transformed",
    needs: ["fixture.putTyped"],
    async check({ backend, putTyped }) {
      const contents: Record<string, string> = {
        "application/json": '{ "b":1,\r\n "a" : [ ] }',
        "text/plain": "\ufeffline\r\nline\n\ttab\0  ",
        "text/html": "<P>not  closed",
        "image/svg+xml": "<svg/>\n\n",
      };
      for (const [contentType, content] of Object.entries(contents)) {
        await putTyped("typed", text(content), { contentType });
        assertBytes(await readKey(backend, "typed"), text(content), contentType);
      }
    },
  }),
  rule({
    id: "open-encoded",
    sentence: "stored gzip is delivered as stored and named in contentEncoding",
    needs: ["fixture.putTyped", "coding"],
    async check({ backend, putTyped }) {
      const packed = gzipSync("packed ".repeat(1000));
      await putTyped("packed.txt", packed, { contentType: "text/plain", contentEncoding: "gzip" });
      const { info, body } = await backend.open("packed.txt");
      assertBytes(await readBody(body), packed);
      expectMember(info, "contentEncoding", 'open("packed.txt")');
      assert.equal(info.contentEncoding, "gzip");
    },
  }),
  rule({
    id: "open-missing",
    sentence: "open of a missing object rejects with not_found, before there is a body",
    async check({ backend }) {
      await expectCode(() => backend.open("missing.txt"), "not_found");
      await expectCode(() => backend.open("no/folder/missing.txt"), "not_found");
    },
  }),
  rule({
    id: "open-folder",
    sentence: "an item that exists without bytes is unsupported",
    needs: ["fixture.putFolder"],
    async check({ backend, putFolder }) {
      const key = await putFolder();
      await expectCode(() => backend.open(key), "unsupported");
      await expectCode(() => backend.describe(key), "unsupported");
    },
  }),
  rule({
    id: "open-back-pressure",
    sentence: "a body that is not read on buffers a few chunks, whatever the size of the object",
    needs: ["fixture.putLarge"],
    async check({ backend, putLarge, countBytes }) {
      await putLarge("pressure.bin", 1024 * oneMiB, text("tail"));
      const heldBytes = (): number => countBytes?.() ?? process.memoryUsage().arrayBuffers;
      const before = heldBytes();
      const { body } = await backend.open("pressure.bin");
      const reader = body.getReader();
      await reader.read();
      await wait(100);
      const grown = heldBytes() - before;
      await reader.cancel();
      // buffers of the systems on the way count as well
      assert.ok(grown <= 16 * oneMiB, `${grown} bytes were taken for one chunk`);
    },
  }),
];
