import assert from "node:assert/strict";
import type { StorageBackend } from "../../../contract/backend.ts";
import {
  assertBytes,
  expectCode,
  oneMiB,
  pattern,
  readBody,
  readKey,
  readOn,
} from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";

/** The etag of an object that must have one. */
async function etagOf(backend: StorageBackend, key: string): Promise<string> {
  const { etag } = await backend.describe(key);
  return etag ?? assert.fail("there is no etag");
}

/** Versions. */
export const conditionRules: readonly Rule[] = [
  rule({
    id: "condition-current",
    sentence: "ifMatch with the present etag opens the object",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("current.bin", pattern(5000));
      const ifMatch = await etagOf(backend, "current.bin");
      assertBytes(await readKey(backend, "current.bin", { ifMatch }), pattern(5000));
    },
  }),
  rule({
    id: "condition-stale",
    sentence:
      "ifMatch with another etag is precondition_failed, however near it comes, and no bytes come",
    needs: ["etag"],
    async check({ backend, put }) {
      for (const content of [pattern(5000), new Uint8Array()]) {
        await put("stale.bin", content);
        const etag = await etagOf(backend, "stale.bin");
        const swapped = etag.replace(/[a-z]/gi, (char) =>
          char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase(),
        );
        for (const ifMatch of [
          `${etag}0`,
          etag.slice(0, -1),
          etag.slice(1),
          swapped,
          ` ${etag}`,
          `${etag},${etag}`,
          `${etag}, x`,
          `x, ${etag}`,
        ])
          if (ifMatch !== etag)
            await expectCode(() => backend.open("stale.bin", { ifMatch }), "precondition_failed");
      }
    },
  }),
  rule({
    id: "condition-range",
    sentence: "ifMatch and range work together",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("both.bin", pattern(5000));
      const ifMatch = await etagOf(backend, "both.bin");
      const range = { start: 100, end: 300 };
      assertBytes(
        await readKey(backend, "both.bin", { ifMatch, range }),
        pattern(5000).subarray(100, 300),
      );
      await expectCode(
        () => backend.open("both.bin", { ifMatch: `${ifMatch}0`, range }),
        "precondition_failed",
      );
    },
  }),
  rule({
    id: "condition-replaced",
    sentence: "an object replaced between describe and open is noticed by ifMatch",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("replaced.bin", pattern(5000, 1));
      const ifMatch = await etagOf(backend, "replaced.bin");
      await put("replaced.bin", pattern(5000, 2));
      await expectCode(() => backend.open("replaced.bin", { ifMatch }), "precondition_failed");
    },
  }),
  rule({
    id: "condition-mixed",
    sentence:
      "an object that changes while it is read never gives a complete body of mixed versions",
    async check({ backend, put, overwrite }) {
      const before = pattern(3 * oneMiB, 1);
      for (const change of [put, overwrite]) {
        if (change === undefined) continue;
        await put("mixed.bin", before);
        const reader = (await backend.open("mixed.bin")).body.getReader();
        const { value = new Uint8Array() } = await reader.read();
        await change("mixed.bin", pattern(3 * oneMiB, 2));
        const bytes = await readOn(reader, value);
        if (bytes !== undefined) assertBytes(bytes, before, "a complete body");
      }
    },
  }),
  rule({
    id: "condition-removed",
    sentence:
      "an object removed while it is read gives its bytes or an error, never a short success",
    async check({ backend, put, remove }) {
      const content = pattern(3 * oneMiB);
      await put("removed.bin", content);
      const reader = (await backend.open("removed.bin")).body.getReader();
      const { value = new Uint8Array() } = await reader.read();
      await remove("removed.bin");
      const bytes = await readOn(reader, value);
      if (bytes !== undefined) assertBytes(bytes, content, "a complete body");
    },
  }),
  rule({
    id: "condition-listed",
    sentence: "an etag in a listing is the one that ifMatch compares with",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("listed.bin", pattern(100));
      const { objects } = await backend.list();
      const { etag: ifMatch } = objects.find(({ key }) => key === "listed.bin") ?? {};
      if (ifMatch === undefined) throw new Absent("the listing has no etags");
      assertBytes(
        await readBody((await backend.open("listed.bin", { ifMatch })).body),
        pattern(100),
      );
    },
  }),
  rule({
    id: "condition-syntax",
    sentence: "a quoted or weak ifMatch is just another etag: precondition_failed",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("syntax.bin", pattern(100));
      const etag = await etagOf(backend, "syntax.bin");
      for (const ifMatch of [`"${etag}"`, `W/"${etag}"`, "*", ""])
        await expectCode(() => backend.open("syntax.bin", { ifMatch }), "precondition_failed");
    },
  }),
];
