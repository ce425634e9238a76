import assert from "node:assert/strict";
import type { WriteOptions } from "../../../contract/backend.ts";
import {
  assertBytes,
  expectCode,
  expectInvisible,
  expectNothingLeft,
  listKeys,
  oneMiB,
  pattern,
  readKey,
  rejection,
  text,
} from "../../expect.ts";
import { showFailure } from "../../record-calls.ts";
import { type Equipped, rule, type Rule } from "../../rule.ts";
import { commit, type ObjectInSteps, openStep, partOf, step } from "../../steps.ts";

type WriteFixture = Equipped<"backend.write">;

async function writeAll(
  { backend }: WriteFixture,
  key: string,
  chunks: readonly Uint8Array[],
  options?: WriteOptions,
): Promise<ReturnType<typeof backend.describe>> {
  const writer = await backend.write(key, options);
  for (const chunk of chunks) await writer.write(chunk.slice());
  return writer.commit();
}

/** Two open writers commit at once: one wins, the other fails, and the object is the winner's. */
async function raceTwoWriters(
  fixture: WriteFixture,
  key: string,
  options: WriteOptions,
): Promise<void> {
  const { backend } = fixture;
  const contents = [pattern(1000, 1), pattern(1000, 2)];
  const writers = await Promise.all(contents.map(() => backend.write(key, options)));
  await Promise.all(writers.map((writer, n) => writer.write(contents[n]?.slice() ?? text(""))));
  const ends = await Promise.allSettled(writers.map((writer) => writer.commit()));
  const reasons = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
  const failures = reasons.map((reason) => showFailure(reason)).join(", ");
  const losses = failures && `; rejected: ${failures}`;
  assert.ok(reasons.length === 1, `${2 - reasons.length} of 2 writers won where 1 has to${losses}`);
  if (failures !== "precondition_failed")
    assert.fail(`the writer that lost got ${failures} where precondition_failed is due`);
  const winner = ends.findIndex(({ status }) => status === "fulfilled");
  assertBytes(await readKey(backend, key), contents[winner] ?? text(""));
  await expectNothingLeft(fixture);
}

/** Writing. */
export const writeRules: readonly Rule[] = [
  rule({
    id: "write-invisible",
    sentence: "nothing is visible before commit",
    needs: ["backend.write"],
    async check(fixture) {
      const writer = await fixture.backend.write("invisible/new.bin");
      await writer.write(pattern(300_000));
      await expectInvisible(fixture, "invisible/new.bin");
      await writer.abort();
    },
  }),
  rule({
    id: "write-visible",
    sentence: "after commit the object is there and is what commit says",
    needs: ["backend.write"],
    async check(fixture) {
      const info = await writeAll(fixture, "visible/new.bin", [pattern(1000)]);
      const { key, size, etag } = await fixture.backend.describe("visible/new.bin");
      assert.deepEqual({ key: info.key, size: info.size }, { key, size });
      // a store may hold a validator back for the first moments of a version
      if (info.etag !== undefined && etag !== undefined) assert.equal(info.etag, etag);
      assertBytes(await readKey(fixture.backend, "visible/new.bin"), pattern(1000));
      assert.deepEqual(await listKeys(fixture.backend), ["visible/new.bin"]);
    },
  }),
  rule({
    id: "write-empty",
    sentence: "zero bytes are an object",
    needs: ["backend.write"],
    async check(fixture) {
      await writeAll(fixture, "empty.bin", []);
      assert.equal((await readKey(fixture.backend, "empty.bin")).byteLength, 0);
      await writeAll(fixture, "empty-chunk.bin", [new Uint8Array()], { size: 0 });
      assert.equal((await readKey(fixture.backend, "empty-chunk.bin")).byteLength, 0);
    },
  }),
  rule({
    id: "write-chunks",
    sentence: "one byte, uneven chunks and several parts arrive in order",
    needs: ["backend.write"],
    async check(fixture) {
      const part = fixture.traits?.partBytes ?? oneMiB;
      const content = pattern(2 * part + 12_345);
      for (const [name, cuts] of Object.entries({
        byte: [1],
        one: [content.byteLength],
        uneven: [1, 2, 70_000, 70_001, part - 1, part + 1, part + 12_345],
      })) {
        const ends = [0, ...cuts];
        const chunks = cuts.map((end, n) => content.subarray(ends[n], end));
        await writeAll(fixture, `${name}.bin`, chunks);
        const expected = content.subarray(0, cuts.at(-1));
        assertBytes(await readKey(fixture.backend, `${name}.bin`), expected, name);
      }
    },
  }),
  rule({
    id: "write-abort",
    sentence: "abort leaves no object and nothing unfinished, and may be repeated",
    needs: ["backend.write"],
    async check(fixture) {
      const writer = await fixture.backend.write("aborted.bin");
      await writer.write(pattern(300_000));
      await writer.abort(new Error("the caller's reason"));
      await writer.abort();
      await expectInvisible(fixture, "aborted.bin");
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "write-abort-late",
    sentence: "abort after commit changes nothing",
    needs: ["backend.write"],
    async check({ backend }) {
      const writer = await backend.write("late.bin");
      await writer.write(pattern(1000));
      await writer.commit();
      await writer.abort();
      assertBytes(await readKey(backend, "late.bin"), pattern(1000));
    },
  }),
  rule({
    id: "write-dispose",
    sentence: "a writer that is disposed of without commit is aborted",
    needs: ["backend.write"],
    async check(fixture) {
      const writer = await fixture.backend.write("disposed.bin");
      await writer.write(pattern(1000));
      await writer[Symbol.asyncDispose]();
      await expectInvisible(fixture, "disposed.bin");
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "write-finished",
    sentence: "write and commit after commit are a TypeError",
    needs: ["backend.write"],
    async check({ backend }) {
      const writer = await backend.write("finished.bin");
      await writer.write(text("finished"));
      await writer.commit();
      assert.ok((await rejection(() => writer.commit())) instanceof TypeError, "commit twice");
      const late = await rejection(() => writer.write(text("more")));
      assert.ok(late instanceof TypeError, "write after commit");
    },
  }),
  rule({
    id: "write-type",
    sentence: "a content type that is given is kept with its parameters, where types are kept",
    needs: ["backend.write", "fixture.putTyped"],
    async check(fixture) {
      const contentType = "text/csv; charset=utf-8";
      await writeAll(fixture, "typed.bin", [pattern(10)], { contentType });
      assert.equal((await fixture.backend.describe("typed.bin")).contentType, contentType);
    },
  }),
  rule({
    id: "write-if-absent",
    sentence: "ifAbsent creates, and is precondition_failed where an object is",
    needs: ["backend.write"],
    async check(fixture) {
      await writeAll(fixture, "absent.bin", [text("first")], { ifAbsent: true });
      await expectCode(
        () => writeAll(fixture, "absent.bin", [text("second")], { ifAbsent: true }),
        "precondition_failed",
      );
      assertBytes(await readKey(fixture.backend, "absent.bin"), text("first"));
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "write-if-match",
    sentence: "ifMatch replaces only that version; a stale one leaves the object as it is",
    needs: ["backend.write", "etag"],
    async check(fixture) {
      const { backend, put } = fixture;
      await put("match.bin", text("first"));
      const { etag = "" } = await backend.describe("match.bin");
      await writeAll(fixture, "match.bin", [text("second")], { ifMatch: etag });
      await expectCode(
        () => writeAll(fixture, "match.bin", [text("third")], { ifMatch: etag }),
        "precondition_failed",
      );
      assertBytes(await readKey(backend, "match.bin"), text("second"));
      await expectCode(
        () => writeAll(fixture, "nothing.bin", [text("x")], { ifMatch: etag }),
        "precondition_failed",
      );
    },
  }),
  rule({
    id: "write-size",
    sentence: "another number of bytes than declared is invalid_argument, and nothing is visible",
    needs: ["backend.write"],
    async check(fixture) {
      for (const size of [999, 1001])
        await expectCode(
          () => writeAll(fixture, "size.bin", [pattern(1000)], { size }),
          "invalid_argument",
        );
      await expectInvisible(fixture, "size.bin");
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "write-race",
    sentence: "of two writers with ifAbsent exactly one wins",
    needs: ["backend.write"],
    check: (fixture) => raceTwoWriters(fixture, "race.bin", { ifAbsent: true }),
  }),
  rule({
    id: "write-race-match",
    sentence: "of two open writers with the same ifMatch exactly one wins",
    needs: ["backend.write", "etag"],
    async check(fixture) {
      await fixture.put("race-match.bin", text("first"));
      const { etag = "" } = await fixture.backend.describe("race-match.bin");
      await raceTwoWriters(fixture, "race-match.bin", { ifMatch: etag });
    },
  }),
  rule({
    id: "write-aborted",
    sentence: "an aborted signal ends a write with its reason and leaves nothing",
    needs: ["backend.write"],
    async check(fixture) {
      const caller = new AbortController();
      const reason = new Error("the caller's reason");
      const { backend } = fixture;
      const writer = await backend.write("signal.bin", { signal: caller.signal });
      await writer.write(pattern(1000));
      caller.abort(reason);
      const failure = await rejection(async () => {
        await writer.write(pattern(1000));
        await writer.commit();
      });
      assert.equal(failure, reason, "it did not reject with the signal's reason");
      await writer.abort();
      await expectInvisible(fixture, "signal.bin");
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "write-again",
    sentence: "after an abandoned write the next one of the same key succeeds",
    needs: ["backend.write"],
    async check(fixture) {
      const writer = await fixture.backend.write("again.bin", { size: 10 });
      await writer.write(pattern(5));
      await rejection(() => writer.commit());
      await writer.abort();
      await writeAll(fixture, "again.bin", [pattern(10)], { size: 10 });
      assertBytes(await readKey(fixture.backend, "again.bin"), pattern(10));
    },
  }),
];

const kib = 1024;

/** A view of the bytes that begins in the middle of its memory, as sockets and files give them. */
function viewOf(bytes: Uint8Array): Uint8Array {
  const memory = new Uint8Array(bytes.byteLength + 20).fill(0x55);
  memory.set(bytes, 7);
  return memory.subarray(7, 7 + bytes.byteLength);
}

/** The bytes in chunks of one size; the last one is what is left. */
function cut(bytes: Uint8Array, chunkBytes: number): Uint8Array[] {
  const chunks = [];
  for (let at = 0; at < bytes.byteLength; at += chunkBytes)
    chunks.push(bytes.subarray(at, at + chunkBytes));
  return chunks;
}

/** Chunks of one object, by their peculiarity. */
function chunksOf(part: number): Readonly<Record<string, readonly Uint8Array[]>> {
  const none = new Uint8Array();
  return {
    "one chunk of 64 KiB": [pattern(64 * kib)],
    "one chunk of 512 KiB": [pattern(512 * kib)],
    "two chunks of 256 KiB": cut(pattern(512 * kib), 256 * kib),
    "a chunk of 5 MiB": [pattern(5 * oneMiB)],
    "exactly one part": cut(pattern(part), oneMiB),
    "exactly two parts": cut(pattern(2 * part), part),
    "a byte less than a part": [pattern(part - 1)],
    "a thousand chunks": cut(pattern(7000), 7),
    "empty chunks between others": [none, text("a"), none, none, text("b"), none],
    "the same chunk again": [pattern(1000), pattern(1000), pattern(1000)],
    "zeros at the end of chunks": [new Uint8Array(4 * kib), text("x\0\0"), new Uint8Array(100)],
  };
}

/** Sizes of chunks, parts and steps. */
export const writeSizeRules: readonly Rule[] = [
  rule({
    id: "write-sizes",
    sentence:
      "chunks of every size and kind arrive: exact chunks and parts, many, empty, equal, views, zeros",
    needs: ["backend.write"],
    async check(fixture) {
      const { backend } = fixture;
      for (const [what, chunks] of Object.entries(chunksOf(partOf(fixture)))) {
        const writer = await backend.write("sizes.bin");
        for (const chunk of chunks) await writer.write(viewOf(chunk));
        await writer.commit();
        assertBytes(await readKey(backend, "sizes.bin"), Buffer.concat(chunks), what);
      }
    },
  }),
  rule({
    id: "steps-sizes",
    sentence:
      "steps of every size and kind arrive: of no bytes, of exactly one part, many, in views",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const part = partOf(fixture);
      const exact = pattern(part);
      let object: ObjectInSteps | undefined;
      for (const bytes of [exact, new Uint8Array(), exact, text("end")])
        object = await step(backend, "sizes/parts.bin", bytes, object);
      if (object) await commit(backend, "sizes/parts.bin", object);
      assertBytes(
        await readKey(backend, "sizes/parts.bin"),
        Buffer.concat([exact, exact, text("end")]),
        "steps of exactly one part",
      );
      object = undefined;
      for (const bytes of cut(pattern(1200), 100)) {
        const writer = await openStep(backend, "sizes/many.bin", object);
        for (const chunk of cut(bytes, 30)) {
          await writer.write(new Uint8Array());
          await writer.write(viewOf(chunk));
        }
        object = { id: writer.id, end: await writer.suspend() };
      }
      if (object) await commit(backend, "sizes/many.bin", object);
      assertBytes(await readKey(backend, "sizes/many.bin"), pattern(1200), "twelve steps");
    },
  }),
];
