import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import {
  expectHandles,
  expectReason,
  oneMiB,
  pattern,
  promptly,
  readBody,
  readKey,
  text,
} from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";

/** Aborts, cancels and what is left open after them. Every rule of the kit is checked for leaks as well. */
export const abortRules: readonly Rule[] = [
  rule({
    id: "abort-before-open",
    sentence: "with an aborted signal open rejects with its reason and asks nothing",
    async check({ backend, put, countRequests }) {
      await put("before.txt", text("before"));
      const before = countRequests?.();
      const reason = new Error("the caller's reason");
      await expectReason(
        () => backend.open("before.txt", { signal: AbortSignal.abort(reason) }),
        reason,
      );
      assert.equal(countRequests?.(), before, "a request was sent");
    },
  }),
  rule({
    id: "abort-during-open",
    sentence: "an abort during open rejects with its reason, there or at the first read",
    async check({ backend, put }) {
      await put("during.bin", pattern(oneMiB));
      const caller = new AbortController();
      const reason = new Error("the caller's reason");
      const opening = backend.open("during.bin", { signal: caller.signal });
      caller.abort(reason);
      await expectReason(async () => readBody((await promptly(opening, "open")).body), reason);
    },
  }),
  rule({
    id: "abort-mid-body",
    sentence: "an abort ends the body with the signal's reason at once, even while it is not read",
    async check({ backend, put }) {
      await put("middle.bin", pattern(3 * oneMiB));
      const caller = new AbortController();
      const { body } = await backend.open("middle.bin", { signal: caller.signal });
      const reader = body.getReader();
      await reader.read();
      const reason = new Error("the caller's reason");
      caller.abort(reason);
      await expectReason(() => promptly(reader.read(), "the end of the body"), reason);
    },
  }),
  rule({
    id: "abort-unread",
    sentence: "cancelling an unread body frees everything",
    needs: ["fixture.countHandles"],
    async check({ backend, put, countHandles }) {
      await put("unread.bin", pattern(oneMiB));
      const before = await countHandles();
      const { body } = await backend.open("unread.bin");
      await body.cancel();
      await expectHandles(countHandles, before);
    },
  }),
  rule({
    id: "abort-break",
    sentence: "leaving a loop over a body frees everything",
    needs: ["fixture.countHandles"],
    async check({ backend, put, countHandles }) {
      await put("break.bin", pattern(3 * oneMiB));
      const before = await countHandles();
      for await (const chunk of (await backend.open("break.bin")).body)
        if (chunk.byteLength > 0) break;
      await expectHandles(countHandles, before);
    },
  }),
  rule({
    id: "abort-many",
    sentence: "a hundred bodies opened and cancelled do not wear the backend out",
    async check({ backend, put, countHandles }) {
      await put("many.bin", pattern(300_000));
      const before = await countHandles?.();
      for (let i = 0; i < 100; i++) {
        const { body } = await promptly(backend.open("many.bin"), `open ${i}`);
        await body.cancel();
      }
      if (before !== undefined && countHandles) await expectHandles(countHandles, before);
    },
  }),
  rule({
    id: "abort-after-end",
    sentence: "an abort after the end does no harm",
    async check({ backend, put }) {
      await put("after.txt", text("after"));
      const caller = new AbortController();
      await readKey(backend, "after.txt", { signal: caller.signal });
      await backend.describe("after.txt", { signal: caller.signal });
      caller.abort(new Error("too late to matter"));
      await wait(1);
      await readKey(backend, "after.txt");
    },
  }),
  rule({
    id: "abort-close",
    sentence: "close may be called twice",
    needs: ["backend.close"],
    async check({ backend }) {
      await backend.close();
      await backend.close();
    },
  }),
  rule({
    id: "abort-close-watch",
    sentence: "close ends watchers",
    needs: ["backend.close", "backend.watch"],
    async check({ backend }) {
      const caller = new AbortController();
      const watching = backend.watch({ signal: caller.signal })[Symbol.asyncIterator]();
      try {
        await watching.next();
        const next = watching.next();
        await backend.close();
        let last = await promptly(next, "the end of the watch");
        while (!last.done) last = await promptly(watching.next(), "the end of the watch");
      } finally {
        caller.abort();
      }
    },
  }),
  rule({
    id: "abort-unhandled",
    sentence: "whatever a caller walks away from, no rejection goes unhandled",
    async check({ backend, put }) {
      await put("unhandled.bin", pattern(3 * oneMiB));
      for (const afterRead of [false, true]) {
        const caller = new AbortController();
        const { body } = await backend.open("unhandled.bin", { signal: caller.signal });
        const reader = body.getReader();
        if (afterRead) await reader.read();
        caller.abort(new Error("walked away"));
        await wait(1);
        await reader.cancel().catch(() => {});
      }
      // the kit watches for unhandled rejections during every rule; give them time to surface
      await wait(5);
    },
  }),
];
