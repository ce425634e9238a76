import assert from "node:assert/strict";
import type { Fixture } from "../../fixture.ts";
import {
  assertFacts,
  expectCode,
  listAll,
  listKeys,
  pattern,
  readKey,
  text,
} from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";

/** Puts small objects and gives their keys in order. */
async function putAll({ put }: Pick<Fixture, "put">, keys: readonly string[]): Promise<string[]> {
  for (const key of keys) await put(key, text(key));
  return keys.toSorted();
}

function numbered(count: number, folder = "n"): string[] {
  return Array.from({ length: count }, (_, n) => `${folder}/${String(n).padStart(3, "0")}.txt`);
}

/** Walks. */
export const listRules: readonly Rule[] = [
  rule({
    id: "list-all",
    sentence: "list gives exactly the objects that can be read; the facts that it gives are right",
    async check(fixture) {
      const { backend, put, traits } = fixture;
      const keys = await putAll(fixture, ["a.txt", "b/c.txt", "b/d/e.txt", "f"]);
      await put("empty.bin", new Uint8Array());
      await put("g/5000.bin", pattern(5000));
      // a store may hide names with a dot, and then from every operation
      for (const key of [".dot.txt", "b/.dot/x.txt"]) {
        if (traits?.refuses?.(key)) continue;
        await put(key, text(key));
        if ((await backend.describe(key).catch(() => undefined)) !== undefined) keys.push(key);
      }
      const objects = await listAll(backend);
      assert.deepEqual(
        objects.map(({ key }) => key).toSorted(),
        [...keys, "empty.bin", "g/5000.bin"].toSorted(),
      );
      for (const info of objects) {
        assertFacts(info, await backend.describe(info.key), "list");
      }
    },
  }),
  rule({
    id: "list-limit",
    sentence: "a page never has more objects than the limit",
    async check(fixture) {
      await putAll(fixture, numbered(7));
      for (const limit of [1, 3, 7, 100]) {
        const { objects } = await fixture.backend.list({ limit });
        assert.ok(objects.length <= limit, `${objects.length} objects for a limit of ${limit}`);
      }
    },
  }),
  rule({
    id: "list-limit-malformed",
    sentence: "a limit that is not a whole number from 1 is invalid_argument",
    async check({ backend }) {
      for (const limit of [0, -1, 1.5, Number.NaN])
        await expectCode(() => backend.list({ limit }), "invalid_argument");
    },
  }),
  rule({
    id: "list-pages",
    sentence: "a walk through the pages visits every object and ends",
    async check(fixture) {
      const keys = await putAll(fixture, [...numbered(7), ...numbered(4, "m"), "top.txt"]);
      for (const limit of [1, 2, 5, 12]) {
        const visited = await listKeys(fixture.backend, { limit });
        assert.deepEqual([...new Set(visited)], keys, `with pages of ${limit}`);
      }
    },
  }),
  rule({
    id: "list-empty",
    sentence: "an empty store lists no objects, and no cursor in the end",
    async check({ backend }) {
      assert.deepEqual(await listAll(backend), []);
    },
  }),
  rule({
    id: "list-types",
    sentence: "an object has the type in a page that describe gives, or the page is untyped",
    needs: ["fixture.putTyped"],
    async check({ backend, putTyped }) {
      const contentType = "text/csv; charset=utf-8";
      await putTyped("typed.csv", text("a,b"), { contentType });
      await putTyped("packed.csv", text("a,b"), { contentType, contentEncoding: "gzip" });
      const { objects, untyped } = await backend.list();
      for (const listedKeys of objects) {
        if (listedKeys.contentType === undefined && untyped) continue;
        const described = await backend.describe(listedKeys.key);
        assert.equal(listedKeys.contentType, described.contentType);
      }
      assert.equal(objects.length, 2);
    },
  }),
  rule({
    id: "list-prefix",
    sentence: "a prefix is plain text at the start of keys, even in the middle of a name",
    async check(fixture) {
      await putAll(fixture, ["pre.txt", "pre/a.txt", "pre/b.txt", "prefix.txt", "other/pre"]);
      const expected: Record<string, string[]> = {
        "pre/": ["pre/a.txt", "pre/b.txt"],
        "pre/b": ["pre/b.txt"],
        pref: ["prefix.txt"],
        pre: ["pre.txt", "pre/a.txt", "pre/b.txt", "prefix.txt"],
      };
      for (const [prefix, keys] of Object.entries(expected))
        assert.deepEqual(await listKeys(fixture.backend, { prefix, limit: 1 }), keys, prefix);
    },
  }),
  rule({
    id: "list-beyond-bmp",
    sentence: "walks and prefixes find keys with characters beyond U+FFFF, in whatever order",
    async check(fixture) {
      const { backend, traits } = fixture;
      // UTF-8 and UTF-16 put these in different orders; the two emoji have their first code unit in common
      const names = [
        "a.txt",
        "\uff5e.txt",
        "😀.txt",
        "😀/a.txt",
        "😁.txt",
        "z/😀/b.txt",
        "z/😁.txt",
      ];
      const usable = names.filter((key) => !traits?.refuses?.(key));
      if (!usable.some((key) => /[😀😁]/u.test(key)))
        throw new Absent("the store refuses all such names");
      const keys = await putAll(fixture, usable);
      for (const limit of [1, 2, 3, 100]) {
        const visited = await listKeys(backend, { limit });
        assert.deepEqual([...new Set(visited)], keys, `with pages of ${limit}`);
      }
      for (const prefix of ["😀", "😀/", "😁", "\uff5e", "z/😀", "z/😁"]) {
        const expected = keys.filter((key) => key.startsWith(prefix));
        const visited = await listKeys(backend, { prefix, limit: 1 });
        assert.deepEqual([...new Set(visited)], expected, `with the prefix ${prefix}`);
      }
    },
  }),
  rule({
    id: "list-no-match",
    sentence: "a prefix without objects is an empty walk and not an error",
    async check(fixture) {
      await putAll(fixture, ["a.txt", "b/c.txt"]);
      for (const prefix of ["zzz", "a.txt/", "b/c.txt/d", "no/such/folder/"])
        assert.deepEqual(await listAll(fixture.backend, { prefix }), [], prefix);
    },
  }),
  rule({
    id: "list-cursor-lasts",
    sentence: "a cursor survives JSON and works in another process",
    needs: ["fixture.reopen"],
    async check(fixture) {
      const keys = await putAll(fixture, numbered(6));
      const { objects, cursor } = await fixture.backend.list({ limit: 2 });
      assert.ok(cursor, "six objects were one page of two");
      const again = await fixture.reopen();
      try {
        const rest = await listAll(again, { cursor: JSON.parse(JSON.stringify(cursor)) as string });
        const visited = [...objects, ...rest].map(({ key }) => key);
        assert.deepEqual([...new Set(visited)].toSorted(), keys);
      } finally {
        await again.close?.();
      }
    },
  }),
  rule({
    id: "list-cursor-foreign",
    sentence:
      "a foreign cursor is invalid_argument: of another prefix, cut, longer, or with one sign changed",
    async check(fixture) {
      const { backend } = fixture;
      await putAll(fixture, [...numbered(6), ...numbered(6, "m")]);
      const { cursor } = await backend.list({ prefix: "n/", limit: 2 });
      assert.ok(cursor, "six objects were one page of two");
      const changed = Array.from(cursor, (char, at) => {
        const other = char === "0" ? "1" : "0";
        return /[a-z0-9]/i.test(char) ? cursor.slice(0, at) + other + cursor.slice(at + 1) : "";
      });
      const swapped = cursor.replace(/[a-z]/gi, (char) =>
        char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase(),
      );
      const cut = [cursor.slice(0, -1), cursor.slice(1), cursor.slice(0, cursor.length / 2)];
      for (const foreign of [
        "",
        "\u2603",
        "no cursor",
        `${cursor}0`,
        `0${cursor}`,
        swapped,
        ...cut,
        ...changed,
      ])
        if (foreign !== cursor)
          await expectCode(
            () => backend.list({ prefix: "n/", cursor: foreign }),
            "invalid_argument",
          );
      for (const options of [{ cursor }, { prefix: "m/", cursor }, { prefix: "n/0", cursor }])
        await expectCode(() => backend.list(options), "invalid_argument");
    },
  }),
  rule({
    id: "list-concurrent",
    sentence: "an object that is there all the time is visited, whatever comes and goes around it",
    async check(fixture) {
      const { backend, put, remove } = fixture;
      await putAll(fixture, ["a0.txt", "a1.txt", "a2.txt"]);
      const lasting = await putAll(fixture, numbered(8));
      const visited = new Set<string>();
      let cursor: string | undefined;
      for (let page = 0; page < 100; page++) {
        const { objects, cursor: next } = await backend.list(
          cursor === undefined ? { limit: 2 } : { limit: 2, cursor },
        );
        for (const { key } of objects) visited.add(key);
        if (next === undefined) break;
        cursor = next;
        // first what was visited goes, then something new comes where the walk has been
        if (page < 3) await remove(`a${page}.txt`);
        else if (page < 6) {
          await put(`b${page}.txt`, text("new"));
          await put(`n/00${page}-new.txt`, text("new"));
        }
      }
      for (const key of lasting) assert.ok(visited.has(key), `${key} was not visited`);
    },
  }),
  rule({
    id: "list-clutter",
    sentence:
      "temporary files, folder markers, unfinished writes and names without a key are not listed",
    needs: ["fixture.putClutter"],
    async check(fixture) {
      const keys = await putAll(fixture, ["a.txt", "b/c.txt"]);
      await fixture.putClutter();
      assert.deepEqual(await listKeys(fixture.backend), keys);
    },
  }),
  rule({
    id: "list-opens",
    sentence: "every listed key opens as it is",
    async check(fixture) {
      const { backend, traits } = fixture;
      const names = ["a b.txt", "c+d.txt", "e%20f.txt", "é/g.txt", "h&i#j.txt"];
      const usable = names.filter((key) => !traits?.refuses?.(key));
      if (usable.length === 0) throw new Absent("the store refuses all such names");
      await putAll(fixture, usable);
      const listedKeys = await listKeys(backend);
      assert.equal(listedKeys.length, usable.length);
      for (const key of listedKeys) await readKey(backend, key);
    },
  }),
];
