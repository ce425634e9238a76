import assert from "node:assert/strict";
import {
  assertBytes,
  expectCode,
  expectInvisible,
  expectNothingLeft,
  expectReason,
  pattern,
  readKey,
  rejection,
  text,
} from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";
import { commit, expectFinished, openStep, partOf, step } from "../../steps.ts";

/** How steps and their objects end. */
export const stepEndRules: readonly Rule[] = [
  rule({
    id: "steps-abort",
    sentence: "abort leaves no object and nothing of any step, and may be repeated",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const object = await step(backend, "aborted.bin", pattern(partOf(fixture) + 1000));
      const writer = await openStep(backend, "aborted.bin", object);
      await writer.write(pattern(1000));
      await writer.abort();
      await writer.abort();
      await expectInvisible(fixture, "aborted.bin");
      await expectNothingLeft(fixture);
    },
  }),
  rule({
    id: "steps-finished",
    sentence: "after commit or abort there is nothing to resume",
    needs: ["backend.writeInSteps"],
    async check(fixture) {
      const { backend } = fixture;
      const content = pattern(partOf(fixture) + 1000);
      const abortedStep = await step(backend, "gone.bin", content);
      await (await openStep(backend, "gone.bin", abortedStep)).abort();
      await expectFinished(backend, "gone.bin", abortedStep.id);
      const object = await step(backend, "made.bin", content);
      await commit(backend, "made.bin", object);
      await expectFinished(backend, "made.bin", object.id);
      assertBytes(await readKey(backend, "made.bin"), content);
    },
  }),
  rule({
    id: "steps-ended",
    sentence:
      "write, suspend and commit after the end of a step are a TypeError, and abort changes nothing",
    needs: ["backend.writeInSteps"],
    async check({ backend }) {
      const writer = await backend.writeInSteps("ended.bin");
      await writer.write(text("ended"));
      const object = { id: writer.id, end: await writer.suspend() };
      for (const call of [
        () => writer.write(text("more")),
        () => writer.suspend(),
        () => writer.commit(),
      ])
        assert.ok((await rejection(call)) instanceof TypeError, "after suspend");
      await writer.abort();
      const last = await openStep(backend, "ended.bin", object);
      await last.commit();
      assert.ok((await rejection(() => last.commit())) instanceof TypeError, "commit twice");
      await last.abort();
      assertBytes(await readKey(backend, "ended.bin"), text("ended"));
    },
  }),
  rule({
    id: "steps-id",
    sentence:
      "an id is visible ASCII, only of its key; an invalid one is refused and leads nowhere",
    needs: ["backend.writeInSteps"],
    async check({ backend }) {
      const object = await step(backend, "folder/id.bin", text("kept"));
      assert.match(object.id, /^[\x21-\x7e]{1,1024}$/);
      for (const id of ["", "../id.bin", "/etc/passwd", "a b", "é", "x".repeat(1025)])
        await expectCode(
          () => backend.writeInSteps("folder/id.bin", { id }),
          "invalid_argument",
          "not_found",
        );
      await expectFinished(backend, "folder/other.bin", object.id);
      await (await openStep(backend, "folder/id.bin", object)).abort();
    },
  }),
  rule({
    id: "steps-type",
    sentence: "the content type of the first step is kept where types are kept",
    needs: ["backend.writeInSteps", "fixture.putTyped"],
    async check(fixture) {
      const { backend } = fixture;
      const contentType = "text/csv; charset=utf-8";
      const writer = await backend.writeInSteps("typed-steps.bin", { contentType });
      await writer.write(pattern(partOf(fixture) + 10));
      await writer.commit();
      assert.equal((await backend.describe("typed-steps.bin")).contentType, contentType);
    },
  }),
  rule({
    id: "steps-aborted",
    sentence: "an aborted signal ends a step with its reason and leaves what was kept",
    needs: ["backend.writeInSteps"],
    async check({ backend }) {
      const object = await step(backend, "signal.bin", text("kept"));
      const caller = new AbortController();
      const reason = new Error("the caller's reason");
      const writer = await openStep(backend, "signal.bin", object, { signal: caller.signal });
      caller.abort(reason);
      await expectReason(() => writer.suspend(), reason);
      await expectReason(
        () => backend.writeInSteps("signal.bin", { id: object.id, signal: caller.signal }),
        reason,
      );
      await commit(backend, "signal.bin", object);
      assertBytes(await readKey(backend, "signal.bin"), text("kept"));
    },
  }),
  rule({
    id: "steps-failure",
    sentence: "a failure of the service ends a step at once, and the next one resumes",
    needs: ["backend.writeInSteps", "fault.fail"],
    async check(fixture) {
      const { backend, faults } = fixture;
      const object = await step(backend, "failing.bin", pattern(1000));
      faults.fail();
      await expectCode(() => commit(backend, "failing.bin", object), "unavailable");
      await commit(backend, "failing.bin", object);
      assertBytes(await readKey(backend, "failing.bin"), pattern(1000));
    },
  }),
];
