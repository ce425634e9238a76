import assert from "node:assert/strict";
import { read } from "node:fs";
import { promisify } from "node:util";
import type { FileRegion } from "@sluice/core";
import type { OpenOptions, StorageBackend } from "../../../contract/backend.ts";
import { assertBytes, expectCode, oneMiB, pattern } from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";

const readAt = promisify(read);

/** Opens the fast face, runs the steps and closes it; absent when there is none. */
async function withFile(
  backend: StorageBackend,
  key: string,
  options: OpenOptions,
  steps: (file: FileRegion) => Promise<void>,
): Promise<void> {
  const { body, file } = await backend.open(key, options);
  if (file === undefined) {
    await body.cancel();
    throw new Absent("open gives no `file`");
  }
  try {
    await steps(file);
  } finally {
    await file.close();
  }
}

/** The other faces: the same bytes through a descriptor, or as they lie in memory. */
export const fileRules: readonly Rule[] = [
  rule({
    id: "file-bytes",
    sentence: "the file face is the same bytes as the body, whole and as a range",
    async check({ backend, put }) {
      await put("file.bin", pattern(100_000));
      for (const [options, start, end] of [
        [{}, 0, 100_000],
        [{ range: { start: 1000, end: 5000 } }, 1000, 5000],
      ] as const)
        await withFile(backend, "file.bin", options, async (file) => {
          assert.equal(file.end - file.start, end - start, "the length of the region");
          const buffer = new Uint8Array(end - start);
          await readAt(file.fd, buffer, 0, buffer.byteLength, file.start);
          await file.verify();
          assertBytes(buffer, pattern(100_000).subarray(start, end));
        });
    },
  }),
  rule({
    id: "file-verify",
    sentence: "the file face notices that the file was changed in place",
    needs: ["fixture.overwrite"],
    async check({ backend, put, overwrite }) {
      await put("verify.bin", pattern(oneMiB, 1));
      await withFile(backend, "verify.bin", {}, async (file) => {
        await file.verify();
        await overwrite("verify.bin", pattern(oneMiB, 2));
        await expectCode(() => file.verify(), "precondition_failed");
      });
    },
  }),
  rule({
    id: "file-memory",
    sentence: "the bytes face is the same bytes as the body, even of a range and of a new version",
    async check({ backend, put }) {
      let faces = 0;
      for (const content of [pattern(4000, 1), pattern(4000, 2)]) {
        await put("memory.bin", content);
        // a store may keep an object in memory only at its second read
        for (let n = 0; n < 4; n++)
          for (const [options, start, end] of [
            [{}, 0, 4000],
            [{ range: { start: 100, end: 300 } }, 100, 300],
          ] as const) {
            const opened = await backend.open("memory.bin", options);
            if (opened.bytes === undefined) await (opened.file?.close() ?? opened.body.cancel());
            else {
              faces++;
              assertBytes(opened.bytes, content.subarray(start, end));
            }
          }
      }
      if (faces === 0) throw new Absent("open gives no `bytes`");
    },
  }),
  rule({
    id: "file-close",
    sentence: "the file face may be closed twice, and the object opens again afterwards",
    async check({ backend, put }) {
      await put("close.bin", pattern(100_000));
      await withFile(backend, "close.bin", {}, async (file) => {
        await file.close();
        await file.close();
      });
      await withFile(backend, "close.bin", {}, (file) => file.verify());
    },
  }),
];
