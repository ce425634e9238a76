import assert from "node:assert/strict";
import type { ChangeBatch, WatchOptions } from "../../../contract/backend.ts";
import { pattern, promptly, text } from "../../expect.ts";
import { Absent, type Equipped, type Rule, rule } from "../../rule.ts";

type WatchFixture = Equipped<"backend.watch">;

/** A running watch, armed, with everything it has said so far. */
interface Watch {
  readonly first: ChangeBatch;
  readonly changed: Set<string>;
  readonly removed: ReadonlySet<string>;
  /** The newest cursor. */
  readonly cursor: () => string | undefined;
  /** True once events may have been lost. */
  readonly isReset: () => boolean;
  /** Takes batches until the condition holds. The rule's deadline ends it otherwise. */
  readonly until: (condition: () => boolean) => Promise<void>;
  readonly forget: () => void;
  readonly stop: () => Promise<void>;
}

async function startWatch(
  { backend }: WatchFixture,
  options: Omit<WatchOptions, "signal"> = {},
): Promise<Watch> {
  const caller = new AbortController();
  const iterator = backend.watch({ ...options, signal: caller.signal })[Symbol.asyncIterator]();
  const changed = new Set<string>();
  const removed = new Set<string>();
  const state: { reset: boolean; cursor?: string | undefined } = { reset: false };
  const take = async (): Promise<ChangeBatch> => {
    const { done, value } = await iterator.next();
    if (done) assert.fail("the watch ended by itself");
    for (const key of value.changed ?? []) changed.add(key);
    for (const key of value.removed ?? []) removed.add(key);
    state.reset ||= value.reset === true;
    state.cursor = value.cursor ?? state.cursor;
    return value;
  };
  const first = await take();
  return {
    first,
    changed,
    removed,
    cursor: () => state.cursor,
    isReset: () => state.reset,
    async until(condition) {
      while (!condition() && !state.reset) await take();
    },
    forget() {
      changed.clear();
      removed.clear();
    },
    async stop() {
      caller.abort();
      await iterator.return?.();
    },
  };
}

/** Runs the steps with a watch that is stopped on every path. */
async function watching(
  fixture: WatchFixture,
  options: Omit<WatchOptions, "signal">,
  steps: (watch: Watch) => Promise<void>,
): Promise<void> {
  const watch = await startWatch(fixture, options);
  try {
    await steps(watch);
  } finally {
    await watch.stop();
  }
}

/** Hints that something changed. */
export const watchRules: readonly Rule[] = [
  rule({
    id: "watch-armed",
    sentence: "the first batch is empty and says that changes are noticed from now on",
    needs: ["backend.watch"],
    async check(fixture) {
      await fixture.put("old.txt", text("old"));
      await watching(fixture, {}, async ({ first }) => {
        const { changed = [], removed = [], reset } = first;
        assert.deepEqual([...changed, ...removed], [], "the first batch is not empty");
        assert.equal(reset, undefined, "the first batch is a reset");
      });
    },
  }),
  rule({
    id: "watch-change",
    sentence: "an object that is new or replaced is reported, even if empty",
    needs: ["backend.watch"],
    async check(fixture) {
      await fixture.put("replaced.txt", text("old"));
      await watching(fixture, {}, async ({ changed, until }) => {
        await fixture.put("new.txt", text("new"));
        await until(() => changed.has("new.txt"));
        for (const content of [text("new"), new Uint8Array()]) {
          changed.delete("replaced.txt");
          await fixture.put("replaced.txt", content);
          await until(() => changed.has("replaced.txt"));
        }
      });
    },
  }),
  rule({
    id: "watch-removal",
    sentence: "an object that is removed is reported as removed",
    needs: ["backend.watch"],
    async check(fixture) {
      await fixture.put("removed.txt", text("removed"));
      await watching(fixture, {}, async ({ removed, until }) => {
        await fixture.remove("removed.txt");
        await until(() => removed.has("removed.txt"));
      });
    },
  }),
  rule({
    id: "watch-again",
    sentence: "one object replaced several times in a row is noticed each time",
    needs: ["backend.watch"],
    async check(fixture) {
      await fixture.put("again.txt", pattern(10));
      await watching(fixture, {}, async ({ changed, forget, until }) => {
        for (let version = 1; version <= 3; version++) {
          await fixture.put("again.txt", pattern(10 + version));
          await until(() => changed.has("again.txt"));
          forget();
        }
      });
    },
  }),
  rule({
    id: "watch-prefix",
    sentence: "with a prefix nothing else is reported",
    needs: ["backend.watch"],
    async check(fixture) {
      await watching(fixture, { prefix: "in/" }, async ({ changed, until }) => {
        await fixture.put("out/a.txt", text("a"));
        await fixture.put("in-between.txt", text("b"));
        if (!fixture.traits?.caseInsensitive) await fixture.put("IN/c.txt", text("C"));
        await fixture.put("in/c.txt", text("c"));
        await until(() => changed.has("in/c.txt"));
        assert.deepEqual([...changed], ["in/c.txt"]);
      });
    },
  }),
  rule({
    id: "watch-abort",
    sentence: "an abort ends the watch normally, without an error",
    needs: ["backend.watch"],
    async check({ backend }) {
      const caller = new AbortController();
      const batches = backend.watch({ signal: caller.signal })[Symbol.asyncIterator]();
      await batches.next();
      const next = batches.next();
      caller.abort(new Error("the caller's reason"));
      assert.equal((await promptly(next, "the end of the watch")).done, true);
    },
  }),
  rule({
    id: "watch-resume",
    sentence: "a watch resumed from a cursor misses nothing, or says reset",
    needs: ["backend.watch"],
    async check(fixture) {
      let cursor: string | undefined;
      await watching(fixture, {}, async (watch) => {
        await fixture.put("before.txt", text("before"));
        await watch.until(() => watch.changed.has("before.txt"));
        cursor = watch.cursor();
      });
      if (cursor === undefined) throw new Absent("the batches have no cursors");
      await fixture.put("meanwhile.txt", text("meanwhile"));
      await watching(fixture, { cursor }, async ({ changed, until, isReset }) => {
        await until(() => changed.has("meanwhile.txt") || isReset());
      });
    },
  }),
  rule({
    id: "watch-burst",
    sentence: "of a burst of changes every key is reported, or reset is",
    needs: ["backend.watch"],
    async check(fixture) {
      const keys = Array.from({ length: 400 }, (_, n) => `burst/${n}.txt`);
      await watching(fixture, {}, async ({ changed, until }) => {
        await Promise.all(keys.map((key) => fixture.put(key, text(key))));
        await until(() => keys.every((key) => changed.has(key)));
      });
    },
  }),
];
