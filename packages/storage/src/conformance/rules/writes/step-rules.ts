import assert from "node:assert/strict";
import {
  assertBytes,
  expectCode,
  expectInvisible,
  expectNothingLeft,
  oneMiB,
  pattern,
  readKey,
} from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";
import { showFailure } from "../../record-calls.ts";
import { type ObjectInSteps, commit, lengthOf, openStep, partOf, step } from "../../steps.ts";
import { stepEndRules } from "./step-end-rules.ts";

/** Writing in steps. */
export const stepRules: readonly Rule[] = [
  rule({
    id: "steps-invisible",
    sentence: "nothing is visible before commit, not even between two steps",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const writer = await backend.writeInSteps("steps/invisible.bin");
      await writer.write(pattern(300_000));
      await expectInvisible(fixture, "steps/invisible.bin");
      const object = { id: writer.id, end: await writer.suspend() };
      await expectInvisible(fixture, "steps/invisible.bin");
      await (await openStep(backend, "steps/invisible.bin", object)).abort();
    },
  }),
  rule({
    id: "steps-bytes",
    sentence: "the object is the bytes of all steps in their order, and what commit says",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const part = partOf(fixture);
      const content = pattern(2 * part + 12_345);
      let object: ObjectInSteps | undefined;
      const ends = [1, 70_000, part - 1, part + 5, 2 * part + 12_345];
      for (const [n, end] of ends.entries())
        object = await step(backend, "steps.bin", content.subarray(ends[n - 1] ?? 0, end), object);
      assert.ok(object);
      const info = await commit(backend, "steps.bin", object);
      assertBytes(await readKey(backend, "steps.bin"), content);
      const { key, size } = await backend.describe("steps.bin");
      assert.deepEqual({ key: info.key, size: info.size }, { key, size });
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "steps-offset",
    sentence:
      "offset and rest are all that was written, the next step begins at that offset, and it never goes back",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const part = partOf(fixture);
      const first = await step(backend, "offset.bin", pattern(part + 1000));
      assert.equal(lengthOf(first), part + 1000, "bytes that one step has kept and given back");
      const second = await step(backend, "offset.bin", pattern(10), first);
      assert.equal(lengthOf(second), part + 1010, "bytes that two steps have kept and given back");
      assert.ok(second.end.offset >= first.end.offset, "the offset went back");
      const writer = await backend.writeInSteps("offset.bin", { id: first.id });
      assert.equal(writer.offset, second.end.offset, "where the third step begins");
      await writer.abort();
    },
  }),
  rule({
    id: "steps-empty",
    sentence: "zero bytes are an object, in one step or in several",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      await (await backend.writeInSteps("empty-step.bin")).commit();
      assert.equal((await readKey(backend, "empty-step.bin")).byteLength, 0);
      const object = await step(backend, "empty-steps.bin", new Uint8Array());
      await commit(backend, "empty-steps.bin", object);
      assert.equal((await readKey(backend, "empty-steps.bin")).byteLength, 0);
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "steps-process",
    sentence: "another process resumes with the kept bytes, even when the one before only stopped",
    needs: ["backend.writeInSteps", "fixture.reopen"],
    async check(fixture) {
      const part = partOf(fixture);
      const content = pattern(part + 100);
      const first = await step(fixture.backend, "process.bin", content.subarray(0, part + 50));
      const stopped = await openStep(fixture.backend, "process.bin", first);
      await stopped.write(content.slice(part + 50, part + 60));
      const other = await fixture.reopen();
      if (!other.writeInSteps) throw new Absent("the other backend has no writeInSteps");
      const writer = await other.writeInSteps("process.bin", { id: first.id });
      assert.ok(writer.offset >= first.end.offset, "the other process finds less than was kept");
      await writer.write(content.slice(writer.offset));
      await writer.commit();
      assertBytes(await readKey(other, "process.bin"), content);
      await stopped.abort();
    },
  }),
  rule({
    id: "steps-look",
    sentence: "a writer that opens and writes nothing changes nothing for the one at work",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const part = partOf(fixture);
      const content = pattern(part + 2000);
      const writer = await backend.writeInSteps("look.bin");
      await writer.write(content.slice(0, part + 10));
      const onlooker = await backend.writeInSteps("look.bin", { id: writer.id });
      assert.ok(onlooker.offset <= part + 10, "more is kept than was written");
      await onlooker.suspend();
      await writer.write(content.slice(part + 10));
      await writer.commit();
      assertBytes(await readKey(backend, "look.bin"), content);
    },
  }),
  rule({
    id: "steps-race",
    sentence:
      "of two writers at the same place one at most makes the object, and never of the bytes of both",
    needs: ["backend.writeInSteps"],
    async check({ backend, ...fixture }) {
      const part = fixture.traits?.partBytes ?? oneMiB;
      const contents = [pattern(2 * part + 100, 1), pattern(2 * part + 100, 2)] as const;
      const object = await step(backend, "race-steps.bin", new Uint8Array());
      const writers = [
        await openStep(backend, "race-steps.bin", object),
        await openStep(backend, "race-steps.bin", object),
      ] as const;
      const failures: unknown[] = [];
      const lost = new Set<number>();
      const each = (call: (n: 0 | 1) => Promise<unknown>): Promise<unknown> =>
        Promise.all(
          ([0, 1] as const).map(async (n) => {
            if (!lost.has(n))
              await call(n).catch((error: unknown) => {
                lost.add(n);
                failures.push(error);
              });
          }),
        );
      for (let at = 0; at < contents[0].byteLength; at += 300_000)
        await each((n) => writers[n].write(contents[n].slice(at, at + 300_000)));
      await each((n) => writers[n].commit());
      for (const failure of failures)
        assert.match(showFailure(failure), /^(precondition_failed|not_found)$/, "the loser's code");
      assert.ok(lost.size > 0, "both writers made the object");
      const winner = ([0, 1] as const).find((n) => !lost.has(n));
      if (winner !== undefined)
        assertBytes(await readKey(backend, "race-steps.bin"), contents[winner]);
      else await expectCode(() => backend.describe("race-steps.bin"), "not_found");
      await Promise.all(writers.map((writer) => writer.abort()));
    },
  }),
  rule({
    id: "steps-late",
    sentence:
      "a writer makes no object once another one has, even when none of its bytes came before that",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      for (const [kept, added] of [
        [0, 0],
        [0, 1000],
        [partOf(fixture), 0],
        [partOf(fixture), 1000],
      ] as const) {
        const key = `late-steps/${kept}-${added}.bin`;
        const object = await step(backend, key, pattern(kept));
        const first = await openStep(backend, key, object);
        const late = await openStep(backend, key, object);
        await first.write(pattern(2000, 1));
        await first.commit();
        await expectCode(
          async () => {
            await late.write(pattern(added, 2));
            await late.commit();
          },
          "precondition_failed",
          "not_found",
        );
        await late.abort();
        const firstBytes = Buffer.concat([pattern(kept), pattern(2000, 1)]);
        assertBytes(await readKey(backend, key), firstBytes);
      }
    },
  }),
  ...stepEndRules,
];
