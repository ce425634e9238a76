import assert from "node:assert/strict";
import {
  assertBytes,
  expectCode,
  expectReason,
  listKeys,
  oneMiB,
  pattern,
  promptly,
  readKey,
  readOn,
  rejection,
  text,
} from "../../expect.ts";
import { type Equipped, type Rule, rule } from "../../rule.ts";

async function expectGone({ backend }: Equipped<"backend.remove">, key: string): Promise<void> {
  await expectCode(() => backend.describe(key), "not_found");
  await expectCode(() => backend.open(key), "not_found");
  assert.ok(!(await listKeys(backend)).includes(key), "it is listed");
}

/** Removing. */
export const removeRules: readonly Rule[] = [
  rule({
    id: "remove-gone",
    sentence: "after remove the object is gone for describe, open and list, and no other object is",
    needs: ["backend.remove"],
    async check(fixture) {
      const { backend, put } = fixture;
      await put("gone/a.bin", pattern(1000));
      await put("gone/b.bin", pattern(1000, 2));
      await backend.remove("gone/a.bin");
      await expectGone(fixture, "gone/a.bin");
      assertBytes(await readKey(backend, "gone/b.bin"), pattern(1000, 2));
      assert.deepEqual(await listKeys(backend), ["gone/b.bin"]);
    },
  }),
  rule({
    id: "remove-missing",
    sentence: "removing a missing or removed object succeeds",
    needs: ["backend.remove"],
    async check({ backend, put }) {
      await backend.remove("never.txt");
      await backend.remove("no-folder/never.txt");
      await put("twice.txt", text("twice"));
      await backend.remove("twice.txt");
      await backend.remove("twice.txt");
      await backend.remove("twice.txt/below.txt");
    },
  }),
  rule({
    id: "remove-below",
    sentence: "objects whose keys begin with the key stay, even when the key is a folder's",
    needs: ["backend.remove"],
    async check({ backend, put }) {
      const otherKeys = ["tree/inside.txt", "tree/sub/inside.txt", "treetop.txt"];
      for (const key of otherKeys) await put(key, text(key));
      // whether a folder is something that is not there or something that cannot be removed is the store's choice
      await backend.remove("tree").catch(() => {});
      await backend.remove("tree/sub").catch(() => {});
      for (const key of otherKeys) assertBytes(await readKey(backend, key), text(key), key);
    },
  }),
  rule({
    id: "remove-read",
    sentence: "an object removed while it is read gives its bytes or an error, never a short end",
    needs: ["backend.remove"],
    async check({ backend, put }) {
      const content = pattern(3 * oneMiB);
      await put("read.bin", content);
      const reader = (await backend.open("read.bin")).body.getReader();
      const { value = new Uint8Array() } = await reader.read();
      await backend.remove("read.bin");
      const bytes = await readOn(reader, value);
      if (bytes !== undefined) assertBytes(bytes, content, "a complete body");
    },
  }),
  rule({
    id: "remove-again",
    sentence: "a removed key can be created again, removed again, and holds the last write",
    needs: ["backend.remove", "backend.write"],
    async check({ backend }) {
      for (const seed of [1, 2, 3]) {
        const writer = await backend.write("again/new.bin", { ifAbsent: true });
        await writer.write(pattern(1000, seed));
        await writer.commit();
        assertBytes(await readKey(backend, "again/new.bin"), pattern(1000, seed));
        await backend.remove("again/new.bin");
      }
    },
  }),
  rule({
    id: "remove-race",
    sentence: "of several calls at once for one object all succeed",
    needs: ["backend.remove"],
    async check(fixture) {
      await fixture.put("race.txt", text("race"));
      await Promise.all([1, 2, 3, 4].map(() => fixture.backend.remove("race.txt")));
      await expectGone(fixture, "race.txt");
    },
  }),
  rule({
    id: "remove-key",
    sentence: "remove refuses an illegal key with invalid_argument",
    needs: ["backend.remove"],
    async check({ backend, put, traits }) {
      await put("a/b", text("b"));
      for (const key of ["", "a//b", "/a/b", "a/../a/b", "a\\b", "a/b\0"])
        await expectCode(() => backend.remove(key), "invalid_argument");
      if (traits?.refuses?.("CON"))
        await expectCode(() => backend.remove("CON"), "invalid_argument");
      assertBytes(await readKey(backend, "a/b"), text("b"));
    },
  }),
  rule({
    id: "remove-aborted",
    sentence: "with an aborted signal remove rejects with its reason, and the object stays",
    needs: ["backend.remove"],
    async check({ backend, put, countRequests }) {
      await put("aborted.txt", text("aborted"));
      const before = countRequests?.();
      const reason = new Error("the caller's reason");
      const signal = AbortSignal.abort(reason);
      await expectReason(() => promptly(backend.remove("aborted.txt", { signal }), "it"), reason);
      assert.equal(countRequests?.(), before, "a request was sent");
      assertBytes(await readKey(backend, "aborted.txt"), text("aborted"));
    },
  }),
  rule({
    id: "remove-failure",
    sentence: "a failing service is unavailable, not taken for an object that is gone",
    needs: ["backend.remove", "fault.fail"],
    async check({ backend, put, faults, secrets = [] }) {
      await put("failure.txt", text("failure"));
      faults.fail();
      const error = (await rejection(() => backend.remove("failure.txt"))) as Error;
      assert.equal((error as { code?: unknown }).code, "unavailable");
      assert.ok(error.message.startsWith(`${backend.name}: `), `"${error.message}"`);
      for (const secret of secrets) assert.ok(!error.message.includes(secret), "a secret");
      assertBytes(await readKey(backend, "failure.txt"), text("failure"));
      await backend.remove("failure.txt");
      await expectCode(() => backend.describe("failure.txt"), "not_found");
    },
  }),
];
