import assert from "node:assert/strict";
import type { StorageBackend } from "../../../contract/backend.ts";
import type { Traits } from "../../fixture.ts";
import { assertBytes, expectCode, listKeys, readKey, text } from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";

type Put = (key: string, content: Uint8Array) => Promise<void>;

/** Each of these must be refused by describe, open and write before the service sees it. */
async function expectRefused(backend: StorageBackend, keys: readonly string[]): Promise<void> {
  for (const key of keys)
    for (const call of [
      () => backend.describe(key),
      () => backend.open(key),
      async () => backend.write?.(key) ?? backend.describe(key),
    ])
      await expectCode(call, "invalid_argument");
}

/** Each key holds its own content, unless the store says that it refuses it. */
async function expectRoundTrip(
  { backend, put, traits }: { backend: StorageBackend; put: Put; traits?: Traits },
  keys: readonly string[],
): Promise<void> {
  const refusedKeys = keys.filter((key) => traits?.refuses?.(key));
  for (const key of refusedKeys) await expectCode(() => backend.describe(key), "invalid_argument");
  const keptKeys = keys.filter((key) => !refusedKeys.includes(key));
  for (const key of keptKeys) await put(key, text(`content of ${key}`));
  for (const key of keptKeys) {
    assert.equal((await backend.describe(key)).key, key);
    assertBytes(await readKey(backend, key), text(`content of ${key}`), JSON.stringify(key));
  }
}

/** None of these may give bytes or metadata, and none may be listed. */
async function expectUnreachable(backend: StorageBackend, keys: readonly string[]): Promise<void> {
  for (const key of keys)
    for (const call of [() => backend.describe(key), () => backend.open(key)])
      await expectCode(call, "not_found", "permission_denied", "invalid_argument", "unsupported");
  const listedKeys = await listKeys(backend);
  for (const key of keys) assert.ok(!listedKeys.includes(key), `${JSON.stringify(key)} is listed`);
}

const windowsNames = ["CON", "NUL", "aux.txt", "COM1", "dot.", "space ", "file.txt::$DATA", "C:x"];

/** Names. */
export const keyRules: readonly Rule[] = [
  rule({
    id: "key-segments",
    sentence: "a key with an empty, . or .. segment or a slash at an end is invalid_argument",
    async check({ backend, put }) {
      await put("a/b", text("b"));
      await expectRefused(backend, [
        "",
        ".",
        "..",
        "/a/b",
        "a/b/",
        "a//b",
        "a/./b",
        "a/../a/b",
        "../a/b",
      ]);
    },
  }),
  rule({
    id: "key-characters",
    sentence: "a key with a backslash, a control character or a lone surrogate is invalid_argument",
    async check({ backend, put }) {
      await put("a/b", text("b"));
      await expectRefused(backend, [
        "a\\b",
        "a/b\0",
        "a\nb",
        "a\u007fb",
        "a\u0085b",
        "a\ud800",
        "\udc00b",
      ]);
    },
  }),
  rule({
    id: "key-length",
    sentence: "1024 UTF-8 bytes are a key, 1025 are not",
    async check({ backend, put, traits }) {
      const longest = Math.min(traits?.maxKeyBytes ?? 1024, 1024);
      const folder = `${"é".repeat(49)}x/`;
      const folders = Math.floor((longest - 1) / 100);
      const exact = folder.repeat(folders) + "y".repeat(longest - 100 * folders);
      await put(exact, text("long"));
      assertBytes(await readKey(backend, exact), text("long"));
      await expectRefused(backend, [`${"a/".repeat(512)}b`]);
    },
  }),
  rule({
    id: "key-punctuation",
    sentence: "spaces and the characters that URLs treat specially are plain text in a key",
    async check(fixture) {
      const signs = [
        " ",
        "#",
        "%",
        "?",
        "+",
        "&",
        '"',
        "'",
        "=",
        ";",
        ",",
        "@",
        "$",
        "!",
        "(",
        "~",
      ];
      await expectRoundTrip(
        fixture,
        signs.map((sign) => `p/a${sign}b.txt`),
      );
    },
  }),
  rule({
    id: "key-literal",
    sentence: "percent-encoded text in a key is text: %2F is not a slash, %2e%2e not a parent",
    async check(fixture) {
      await fixture.put("q/b.txt", text("the decoded spelling"));
      await expectRoundTrip(fixture, [
        "q%2Fb.txt",
        "%2e%2e/b.txt",
        "q/%2e%2e/b.txt",
        "q/%62.txt",
        "100%",
      ]);
    },
  }),
  rule({
    id: "key-unicode",
    sentence:
      "letters of all scripts and emoji are kept as they are; NFC and NFD are two keys, or one",
    async check({ backend, put, traits }) {
      await expectRoundTrip({ backend, put }, ["Ελλάδα/日本語.txt", "😀.txt", "ß/ﬀ.txt"]);
      const [composed, decomposed] = ["caf\u00e9.txt", "cafe\u0301.txt"];
      await put(composed, text("composed"));
      if (!traits?.normalizing) {
        await put(decomposed, text("decomposed"));
        assertBytes(await readKey(backend, composed), text("composed"));
        assertBytes(await readKey(backend, decomposed), text("decomposed"));
        return;
      }
      assert.equal(
        (await backend.describe(decomposed)).key,
        (await backend.describe(composed)).key,
      );
    },
  }),
  rule({
    id: "key-case",
    sentence: "keys that differ in case are two objects",
    async check({ backend, put, traits }) {
      if (traits?.caseInsensitive) throw new Absent("the store is case-insensitive");
      await put("Case.txt", text("upper"));
      await expectCode(() => backend.describe("case.txt"), "not_found");
    },
  }),
  rule({
    id: "key-folder-prefix",
    sentence: "the prefix docs/ does not reach into docs-old/",
    async check({ backend, put }) {
      await put("docs/a.txt", text("a"));
      await put("docs-old/b.txt", text("b"));
      assert.deepEqual(await listKeys(backend, { prefix: "docs/" }), ["docs/a.txt"]);
    },
  }),
  rule({
    id: "key-devices",
    sentence:
      "names that are devices somewhere are plain names or refused, never opened as devices",
    async check({ backend }) {
      for (const key of windowsNames)
        await expectCode(() => backend.open(key), "not_found", "invalid_argument");
    },
  }),
  rule({
    id: "key-sibling",
    sentence: "a sibling of the root whose name begins like the root's is out of reach",
    needs: ["fixture.putOutside"],
    async check({ backend, putOutside }) {
      await expectUnreachable(backend, (await putOutside()).sibling);
    },
  }),
  rule({
    id: "key-outside",
    sentence: "an object outside the root is out of reach for every hostile key, link and alias",
    needs: ["fixture.putOutside"],
    async check({ backend, putOutside }) {
      await expectUnreachable(backend, (await putOutside()).escapes);
    },
  }),
];
