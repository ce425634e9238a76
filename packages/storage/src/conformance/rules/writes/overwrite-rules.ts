import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { ObjectInfo, WriteOptions } from "../../../contract/backend.ts";
import {
  assertBytes,
  expectCode,
  oneMiB,
  pattern,
  readBody,
  readKey,
  readOn,
  rejection,
} from "../../expect.ts";
import type { Fixture } from "../../fixture.ts";
import { type Rule, rule } from "../../rule.ts";
import { showFailure } from "../../record-calls.ts";
import { type ObjectInSteps, commit, openStep, step } from "../../steps.ts";

const old = pattern(5000, 1);

/** Puts the object that writers replace and describes it. */
async function putOld(
  { backend, put }: Pick<Fixture, "backend" | "put">,
  key: string,
): Promise<ObjectInfo> {
  await put(key, old);
  return backend.describe(key);
}

/** The object is there as it was before any writer. */
async function expectOld({ backend }: Pick<Fixture, "backend">, before: ObjectInfo): Promise<void> {
  const { etag } = await backend.describe(before.key);
  assert.equal(etag, before.etag, "the etag of the object that is not replaced");
  assertBytes(await readKey(backend, before.key), old, "the object that is not replaced");
  await expectListed({ backend }, before.key, old.byteLength);
}

async function expectListed(
  { backend }: Pick<Fixture, "backend">,
  key: string,
  size: number,
  etag?: string,
): Promise<void> {
  const { objects } = await backend.list({ prefix: key });
  assert.deepEqual(
    objects.map((object) => object.key),
    [key],
    "the listed objects",
  );
  const [listed] = objects;
  if (listed?.size !== undefined) assert.equal(listed.size, size, "the listed size");
  if (listed?.etag !== undefined && etag !== undefined)
    assert.equal(listed.etag, etag, "the listed etag");
}

/** The facts of one version as every operation gives them, and its bytes. */
async function expectVersion(
  { backend, traits }: Pick<Fixture, "backend" | "traits">,
  committed: ObjectInfo,
  bytes: Uint8Array,
): Promise<ObjectInfo> {
  const { key } = committed;
  const described = await backend.describe(key);
  const opened = await backend.open(key);
  assertBytes(await readBody(opened.body), bytes);
  for (const [source, info] of Object.entries({
    commit: committed,
    describe: described,
    open: opened.info,
  })) {
    if (!traits?.withoutSize || info.size !== undefined)
      assert.equal(info.size, bytes.byteLength, `the size that ${source} gives`);
    // a store may hold a validator back for the first moments of a version
    if (info.etag !== undefined && described.etag !== undefined)
      assert.equal(info.etag, described.etag, `the etag that ${source} gives`);
    for (const name of ["sha256", "sha1", "md5"] as const)
      if (info.digests?.[name] !== undefined)
        assert.equal(
          info.digests[name],
          createHash(name).update(bytes).digest("hex"),
          `the ${name} that ${source} gives`,
        );
  }
  await expectListed({ backend }, key, bytes.byteLength, described.etag);
  return described;
}

/** Lengths of one object after another: shorter, as long, empty, longer. */
const lengths = [3000, 3000, 0, 700, 4096];

/** Writing over objects that are there. */
export const overwriteRules: readonly Rule[] = [
  rule({
    id: "write-overwrite",
    sentence:
      "an object that is replaced stays as it is until commit, and every read gives one version whole",
    needs: ["backend.write"],
    async check(fixture) {
      const { backend } = fixture;
      const before = await putOld(fixture, "over/replaced.bin");
      const content = pattern(300_000, 2);
      const writer = await backend.write("over/replaced.bin", { size: content.byteLength });
      await expectOld(fixture, before);
      for (const start of [0, 150_000]) {
        await writer.write(content.slice(start, start + 150_000));
        await expectOld(fixture, before);
      }
      const end = { isCommitted: false };
      const committing = writer.commit().finally(() => (end.isCommitted = true));
      const reads = (async () => {
        while (!end.isCommitted) {
          await wait(0);
          const bytes = await readKey(backend, "over/replaced.bin").catch((error: unknown) => {
            assert.notEqual(showFailure(error), "not_found", "a read during commit");
            return content;
          });
          assertBytes(
            bytes,
            bytes.byteLength === old.byteLength ? old : content,
            "a read during commit",
          );
        }
      })();
      await Promise.all([committing, reads]);
      assertBytes(await readKey(backend, "over/replaced.bin"), content);
    },
  }),
  rule({
    id: "write-overwrite-abort",
    sentence:
      "a writer that ends without commit leaves the object that it was to replace, and other writers",
    needs: ["backend.write"],
    async check(fixture) {
      const { backend } = fixture;
      const before = await putOld(fixture, "over/kept.bin");
      const caller = new AbortController();
      const begin = async (options?: WriteOptions) => {
        const writer = await backend.write("over/kept.bin", options);
        await writer.write(pattern(1000, 2));
        return writer;
      };
      const other = await begin();
      await (await begin()).abort(new Error("the caller's reason"));
      await expectOld(fixture, before);
      await (await begin())[Symbol.asyncDispose]();
      await expectOld(fixture, before);
      const short = await begin({ size: 1001 });
      await expectCode(() => short.commit(), "invalid_argument");
      await short.abort();
      await expectOld(fixture, before);
      const aborted = await begin({ signal: caller.signal });
      caller.abort(new Error("the caller's reason"));
      await rejection(() => aborted.commit());
      await aborted.abort();
      await expectOld(fixture, before);
      await other.commit();
      assertBytes(await readKey(backend, "over/kept.bin"), pattern(1000, 2), "the other writer");
    },
  }),
  rule({
    id: "write-overwrite-facts",
    sentence: "every operation tells only of the replacement: bytes, size, etag, digests, type",
    needs: ["backend.write"],
    async check(fixture) {
      const { backend, putTyped } = fixture;
      let before = await putOld(fixture, "over/facts.bin");
      const types = ["application/x-first", "application/x-second", undefined];
      for (const [n, length] of lengths.entries()) {
        const contentType = types[n % types.length];
        const writer = await backend.write("over/facts.bin", contentType ? { contentType } : {});
        if (length > 0) await writer.write(pattern(length, n + 2));
        const info = await expectVersion(fixture, await writer.commit(), pattern(length, n + 2));
        if (before.etag !== undefined) {
          const ifMatch = before.etag;
          assert.notEqual(info.etag, ifMatch, "the etag of other bytes");
          await expectCode(
            () => backend.open("over/facts.bin", { ifMatch }),
            "precondition_failed",
          );
        }
        if (putTyped && contentType) assert.equal(info.contentType, contentType);
        else if (before.contentType?.startsWith("application/x-"))
          assert.notEqual(info.contentType, before.contentType, "the type of the replaced object");
        before = info;
      }
    },
  }),
  rule({
    id: "write-overwrite-read",
    sentence:
      "an object that a writer replaces while it is read gives its bytes or an error, never a mix",
    needs: ["backend.write"],
    async check({ backend, put }) {
      const content = pattern(3 * oneMiB, 1);
      await put("over/read.bin", content);
      const reader = (await backend.open("over/read.bin")).body.getReader();
      const { value = new Uint8Array() } = await reader.read();
      const writer = await backend.write("over/read.bin");
      await writer.write(pattern(3 * oneMiB, 2));
      await writer.commit();
      const bytes = await readOn(reader, value);
      if (bytes !== undefined) assertBytes(bytes, content, "a complete body");
    },
  }),
  rule({
    id: "write-signal-late",
    sentence: "an abort of the signal after commit changes nothing",
    needs: ["backend.write"],
    async check({ backend }) {
      const caller = new AbortController();
      const writer = await backend.write("over/late.bin", { signal: caller.signal });
      await writer.write(pattern(1000));
      await writer.commit();
      caller.abort(new Error("too late to matter"));
      await writer.abort();
      assertBytes(await readKey(backend, "over/late.bin"), pattern(1000));
    },
  }),
  rule({
    id: "write-condition-exact",
    sentence:
      "the conditions of a write are exact: an empty object counts, a near key does not, a near etag differs",
    needs: ["backend.write"],
    async check(fixture) {
      const { backend, put, traits } = fixture;
      const write = async (key: string, options: WriteOptions): Promise<void> => {
        const writer = await backend.write(key, options);
        await writer.write(pattern(10));
        await writer.commit();
      };
      await put("exact/empty.bin", new Uint8Array());
      await expectCode(() => write("exact/empty.bin", { ifAbsent: true }), "precondition_failed");
      await put("exact/Name.bin.old", old);
      for (const key of [
        "exact/Name.bin",
        "exact/Name",
        ...(traits?.caseInsensitive ? [] : ["exact/name.bin"]),
      ])
        await write(key, { ifAbsent: true });
      if (traits?.withoutEtag) return;
      for (const [key, content] of [
        ["exact/empty.bin", new Uint8Array()],
        ["exact/full.bin", old],
      ] as const) {
        await put(key, content);
        const { etag = "" } = await backend.describe(key);
        for (const ifMatch of ["", "*", `"${etag}"`, `W/"${etag}"`, `${etag}0`, etag.slice(0, -1)])
          await expectCode(() => write(key, { ifMatch }), "precondition_failed");
        assertBytes(await readKey(backend, key), content);
      }
    },
  }),
  rule({
    id: "write-at-once",
    sentence: "writers of several keys at once, even of one name in several folders, do not meet",
    needs: ["backend.write"],
    async check({ backend }) {
      const keys = ["same.bin", "one/same.bin", "two/same.bin", "two/same.bi", "one/other.bin"];
      const writers = [];
      for (const [n, key] of keys.entries()) {
        const writer = await backend.write(key);
        await writer.write(pattern(3000, n).slice(0, 1000));
        writers.push(writer);
      }
      await Promise.all(writers.map((writer, n) => writer.write(pattern(3000, n).slice(1000))));
      await writers.pop()?.abort();
      await Promise.all(writers.map((writer) => writer.commit()));
      for (const [n, key] of keys.slice(0, -1).entries())
        assertBytes(await readKey(backend, key), pattern(3000, n), key);
    },
  }),
  rule({
    id: "write-process",
    sentence: "another process sees what was written, replaced and removed, as soon as it is",
    needs: ["backend.write", "fixture.reopen"],
    async check(fixture) {
      const { backend } = fixture;
      const other = await fixture.reopen();
      try {
        for (const seed of [1, 2]) {
          const writer = await backend.write("shared/object.bin");
          await writer.write(pattern(1000 * seed, seed));
          const info = await writer.commit();
          await expectVersion({ ...fixture, backend: other }, info, pattern(1000 * seed, seed));
          assert.deepEqual(
            (await other.list({ prefix: "shared/" })).objects.map(({ key }) => key),
            ["shared/object.bin"],
          );
        }
        if (!backend.remove) return;
        await backend.remove("shared/object.bin");
        await expectCode(() => other.describe("shared/object.bin"), "not_found");
        await expectCode(() => other.open("shared/object.bin"), "not_found");
        assert.deepEqual((await other.list({ prefix: "shared/" })).objects, []);
      } finally {
        await other.close?.();
      }
    },
  }),
  rule({
    id: "steps-overwrite",
    sentence:
      "steps leave the object that they will replace until commit, also at abort, and nothing of it after",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend, putTyped } = fixture;
      const before = await putOld(fixture, "over/steps.bin");
      const aborted = await step(backend, "over/steps.bin", pattern(1000, 2));
      await expectOld(fixture, before);
      await (await openStep(backend, "over/steps.bin", aborted)).abort();
      await expectOld(fixture, before);
      const contentType = "application/x-first";
      const typed = await backend.writeInSteps("over/steps.bin", { contentType });
      await typed.write(pattern(2000, 3));
      const first = await expectVersion(fixture, await typed.commit(), pattern(2000, 3));
      if (putTyped) assert.equal(first.contentType, contentType);
      const object = await step(backend, "over/steps.bin", pattern(1000, 4));
      const info = await commit(backend, "over/steps.bin", object);
      const last = await expectVersion(fixture, info, pattern(1000, 4));
      if (first.etag !== undefined)
        assert.notEqual(last.etag, first.etag, "the etag of other bytes");
      assert.notEqual(last.contentType, contentType, "the type of the replaced object");
    },
  }),
  rule({
    id: "steps-two",
    sentence:
      "two objects in steps of one key never mix: the later one may fail once the other is made",
    needs: ["backend.writeInSteps"],
    async check({ backend }) {
      const objects = [];
      for (const seed of [1, 2, 3])
        objects.push(await step(backend, "two.bin", pattern(1000, seed)));
      const [first, second, third] = objects;
      assert.equal(new Set(objects.map(({ id }) => id)).size, 3, "the number of ids");
      await (await openStep(backend, "two.bin", second)).abort();
      const end = async (own: ObjectInSteps | undefined, seed: number): Promise<void> => {
        const writer = await openStep(backend, "two.bin", own);
        await writer.write(pattern(500, seed));
        await writer.commit();
      };
      await end(first, 11);
      const firstBytes = Buffer.concat([pattern(1000, 1), pattern(500, 11)]);
      assertBytes(await readKey(backend, "two.bin"), firstBytes, "the first object");
      // a service may drop with one commit what else it keeps of the key
      const failure = await end(third, 13).catch((error: unknown) => showFailure(error));
      if (failure !== undefined)
        assert.match(failure, /^(precondition_failed|not_found)$/, "the later object");
      const later = Buffer.concat([pattern(1000, 3), pattern(500, 13)]);
      assertBytes(await readKey(backend, "two.bin"), failure === undefined ? later : firstBytes);
    },
  }),
  rule({
    id: "remove-write",
    sentence: "removing an object ends no writer of its key: its commit makes the object",
    needs: ["backend.remove", "backend.write"],
    async check(fixture) {
      const { backend } = fixture;
      await putOld(fixture, "over/removed.bin");
      const writer = await backend.write("over/removed.bin");
      await writer.write(pattern(1000, 2));
      await backend.remove("over/removed.bin");
      await expectCode(() => backend.describe("over/removed.bin"), "not_found");
      await writer.write(pattern(1000, 3));
      await writer.commit();
      const bytes = Buffer.concat([pattern(1000, 2), pattern(1000, 3)]);
      assertBytes(await readKey(backend, "over/removed.bin"), bytes);
    },
  }),
];
