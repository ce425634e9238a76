import assert from "node:assert/strict";
import { expectCode, expectMember, expectReason, pattern, text } from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";

/** Metadata of one object. */
export const describeRules: readonly Rule[] = [
  rule({
    id: "describe-facts",
    sentence:
      "describe gives the key and the size; a time of the last change that it gives is right",
    async check({ backend, put, traits }) {
      const before = Date.now();
      await put("facts.bin", pattern(1234));
      const info = await backend.describe("facts.bin");
      assert.equal(info.key, "facts.bin");
      if (!traits?.withoutSize) {
        expectMember(info, "size", 'describe("facts.bin")');
        assert.equal(info.size, 1234);
      }
      const changed = info.lastModified?.getTime() ?? before;
      assert.ok(Math.abs(changed - before) < 60_000, "lastModified is not the time of the change");
    },
  }),
  rule({
    id: "describe-missing",
    sentence: "describe of a missing object is not_found",
    async check({ backend, put }) {
      await put("there.txt", text("there"));
      await expectCode(() => backend.describe("missing.txt"), "not_found");
      await expectCode(() => backend.describe("no/such/folder/missing.txt"), "not_found");
      await expectCode(() => backend.describe("there.txt/below"), "not_found");
    },
  }),
  rule({
    id: "describe-no-content",
    sentence: "describe transfers no content",
    needs: ["fixture.countBytes"],
    async check({ backend, put, countBytes }) {
      await put("content.bin", pattern(100_000));
      const before = countBytes();
      await backend.describe("content.bin");
      assert.equal(countBytes() - before, 0, "content left the store");
    },
  }),
  rule({
    id: "describe-empty",
    sentence: "an empty object has size 0",
    needs: ["size"],
    async check({ backend, put }) {
      await put("empty.bin", new Uint8Array());
      assert.equal((await backend.describe("empty.bin")).size, 0);
    },
  }),
  rule({
    id: "describe-large",
    sentence: "sizes from 2^31 and beyond 2^32 are exact",
    needs: ["size", "fixture.putLarge"],
    async check({ backend, putLarge }) {
      for (const size of [2 ** 31, 2 ** 32, 2 ** 32 + 4711]) {
        await putLarge("large.bin", size, text("tail"));
        assert.equal((await backend.describe("large.bin")).size, size);
      }
    },
  }),
  rule({
    id: "describe-etag-stable",
    sentence: "the etag of an unchanged object stays the same, even after it was read",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("stable.bin", pattern(1000));
      const info = await backend.describe("stable.bin");
      expectMember(info, "etag", 'describe("stable.bin")');
      await (await backend.open("stable.bin")).body.cancel();
      assert.equal((await backend.describe("stable.bin")).etag, info.etag);
    },
  }),
  rule({
    id: "describe-etag-changes",
    sentence: "other content of the same length has another etag",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("changes.bin", pattern(1000, 1));
      const first = await backend.describe("changes.bin");
      expectMember(first, "etag", 'describe("changes.bin")');
      await put("changes.bin", pattern(1000, 2));
      assert.notEqual((await backend.describe("changes.bin")).etag, first.etag);
    },
  }),
  rule({
    id: "describe-etag-syntax",
    sentence: "an etag is opaque text without quotes and without W/ (RFC 9110 §8.8.3)",
    needs: ["etag"],
    async check({ backend, put }) {
      await put("syntax.bin", pattern(1000));
      const { etag = "" } = await backend.describe("syntax.bin");
      assert.match(etag, /^(?!W\/)[\x21\x23-\x7e]+$/);
    },
  }),
  rule({
    id: "describe-etag-not-reused",
    sentence: "an etag is never reused: not after a metadata change, not for later content",
    needs: ["etag", "fixture.touch"],
    async check({ backend, put, touch }) {
      await put("reused.bin", pattern(1000, 1));
      const { etag: first } = await backend.describe("reused.bin");
      await touch("reused.bin");
      const { etag: touched } = await backend.describe("reused.bin");
      await put("reused.bin", pattern(1000, 2));
      const { etag: replaced } = await backend.describe("reused.bin");
      assert.ok(replaced !== first && replaced !== touched, "the etag of other bytes came back");
      await touch("reused.bin");
      const { etag: last } = await backend.describe("reused.bin");
      assert.ok(last !== first && last !== touched, "the etag of other bytes came back");
    },
  }),
  rule({
    id: "describe-type",
    sentence: "the content type is the stored one, with its parameters",
    needs: ["fixture.putTyped"],
    async check({ backend, putTyped }) {
      for (const type of ["application/x-special", "text/csv; charset=utf-8", "text/plain"]) {
        await putTyped("typed.bin", text("{}"), { contentType: type });
        assert.equal((await backend.describe("typed.bin")).contentType, type);
      }
    },
  }),
  rule({
    id: "describe-type-not-guessed",
    sentence: "the content type is never guessed from a name or from bytes",
    async check({ backend, put }) {
      const contents = {
        "guess.json": text('{"a":1}'),
        "guess.png": new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
        "guess.txt": text("plain text"),
        "guess.html": text("<!doctype html><title>a page</title>"),
      };
      for (const [key, content] of Object.entries(contents)) {
        await put(key, content);
        const { contentType = "" } = await backend.describe(key);
        assert.doesNotMatch(contentType, /json|png|plain|html/, key);
      }
    },
  }),
  rule({
    id: "describe-canonical",
    sentence: "another spelling of a key is answered with the stored one",
    needs: ["fixture.alias"],
    async check({ backend, put, alias }) {
      await put("Canonical.txt", text("canonical"));
      const spelling = alias("Canonical.txt");
      assert.notEqual(spelling, "Canonical.txt");
      assert.equal((await backend.describe(spelling)).key, "Canonical.txt");
      const { info, body } = await backend.open(spelling);
      await body.cancel();
      assert.equal(info.key, "Canonical.txt");
    },
  }),
  rule({
    id: "describe-aborted",
    sentence: "with an aborted signal describe and list reject with its reason and ask nothing",
    async check({ backend, put, countRequests }) {
      await put("aborted.txt", text("aborted"));
      const reason = new Error("the caller's reason");
      const signal = AbortSignal.abort(reason);
      const before = countRequests?.();
      await expectReason(() => backend.describe("aborted.txt", { signal }), reason);
      await expectReason(() => backend.list({ signal }), reason);
      assert.equal(countRequests?.(), before, "a request was sent");
    },
  }),
];
