import assert from "node:assert/strict";
import type { ObjectWriter, StorageBackend } from "../../../contract/backend.ts";
import { assertBytes, expectCode, listKeys, readKey, text } from "../../expect.ts";
import type { Fixture } from "../../fixture.ts";
import { type Rule, rule } from "../../rule.ts";

/** Names that careless code takes for other names, of which there is an object as well. */
const confusable = [
  "s/a b.txt",
  "s/a%20b.txt",
  "s/a+b.txt",
  "s/ab#c.txt",
  "s/ab?c.txt",
  "s/ab",
  "s/q%2Fb.txt",
  "s/q/b.txt",
  "s/Case.txt",
  "s/x=y;z.txt",
  'w/a:"b".txt',
  "s/a..b.txt",
  "s/c...txt",
  "s/__proto__",
  "s/constructor",
  "s/100%",
];
const caseOnly = ["s/case.txt", "S/Case.txt", "s/É.txt", "s/é.txt"];
const decomposed = ["s/cafe\u0301.txt", "s/caf\u00e9.txt"];

/** The confusable names that this store tells apart. */
function namesFor({ traits }: Fixture): string[] {
  const names = [
    ...confusable,
    ...(traits?.caseInsensitive ? [] : caseOnly),
    ...(traits?.normalizing ? [] : decomposed),
  ];
  return names.filter((key) => !traits?.refuses?.(key));
}

/** Each name has its own content. */
async function expectNames(backend: StorageBackend, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    assert.equal((await backend.describe(key)).key, key);
    assertBytes(await readKey(backend, key), text(`content of ${key}`), JSON.stringify(key));
  }
}

async function expectOwnSpellings(
  fixture: Fixture,
  open: (key: string) => Promise<Pick<ObjectWriter, "write" | "commit">>,
): Promise<void> {
  const keys = namesFor(fixture);
  for (const key of keys) {
    const writer = await open(key);
    await writer.write(text(`content of ${key}`));
    assert.equal((await writer.commit()).key, key);
  }
  await expectNames(fixture.backend, keys);
  assert.deepEqual(await listKeys(fixture.backend), keys.toSorted());
}

/** Spellings that come close to these keys and name nothing. */
const nearKeys = ["near/Folder/name.txt", "near/Å.txt", "near/wide.txt"];
const nearSpellings = [
  "near/Fold",
  "near/Folder/name",
  "near/Folder/name.tx",
  "near/Folder/name.txt.",
  "near/Folder/name.txt ",
  "near/Folder/ name.txt",
  "near/Folder/..name.txt",
  "near/Folder/...name.txt",
  "near/Folder/name.txt/x",
  "Folder/name.txt",
  "name.txt",
  "near/A.txt",
  "near/ｗide.txt",
  "constructor",
  "__proto__",
  "toString",
];
const nearInCase = [
  "near/folder/name.txt",
  "Near/Folder/name.txt",
  "near/Folder/NAME.txt",
  "near/å.txt",
];
const nearFolders = ["near", "near/Folder"];

/** Prefixes with signs that mean something elsewhere, and the keys that they are not the beginning of. */
const literalPrefixes = [
  "l/A",
  "l/a*",
  "l/a?",
  "l/a%",
  "l/a_",
  "l/a.",
  "l/[ab]",
  "l/(a|b)",
  "l/a+",
  "l/a b",
  "l/a ",
  "l/ ",
  "l/a%20",
  "l/a#",
  "l/caf\u00e9",
  "l/cafe\u0301",
  "l//a",
  "/l/a",
  "./l/a",
  "l/./a",
  "l/ab.txt",
  "L/",
  " l/",
  "*",
  "%",
  ".",
];
const literalKeys = [
  "l/ab.txt",
  "l/Ab.txt",
  "l/axb.txt",
  "l/a b.txt",
  "l/a%20b.txt",
  "l/a+b.txt",
  "l/a_b.txt",
  "l/a#b.txt",
  "l/a.b.txt",
  "l/caf\u00e9.txt",
  "l/cafe\u0301.txt",
  "l/aab.txt",
  "l/b.txt",
  "m/a.txt",
];

/** Spelling: names of objects, and texts that only look like them. */
export const spellingRules: readonly Rule[] = [
  rule({
    id: "key-confusable",
    sentence: "names that differ in one sign that means something elsewhere are different objects",
    async check(fixture) {
      const keys = namesFor(fixture);
      for (const key of keys) await fixture.put(key, text(`content of ${key}`));
      await expectNames(fixture.backend, keys);
    },
  }),
  rule({
    id: "key-near",
    sentence: "a near key finds nothing: its beginning, its folder, another case, a sign more",
    async check({ backend, put, traits }) {
      for (const key of nearKeys) await put(key, text(key));
      const spellings = [
        ...nearSpellings,
        ...(traits?.caseInsensitive ? [] : nearInCase),
        ...(traits?.describesFolders ? [] : nearFolders),
      ];
      for (const spelling of spellings) {
        // a folder is something without bytes
        const other = traits?.refuses?.(spelling) ? "invalid_argument" : "unsupported";
        for (const call of [() => backend.describe(spelling), () => backend.open(spelling)])
          await expectCode(call, "not_found", other);
      }
    },
  }),
  rule({
    id: "list-prefix-literal",
    sentence:
      "no character in a prefix has a special meaning, no case and no form of a letter is another one",
    async check(fixture) {
      const { backend, traits, put } = fixture;
      const names = literalKeys.filter((key) => !traits?.refuses?.(key));
      const keys = names.filter(
        (key) =>
          !(traits?.normalizing && key === "l/cafe\u0301.txt") &&
          !(traits?.caseInsensitive && key === "l/Ab.txt"),
      );
      for (const key of keys) await put(key, text(key));
      for (const prefix of literalPrefixes) {
        const listedKeys = await listKeys(backend, { prefix });
        const due = keys.filter((key) => key.startsWith(prefix)).toSorted();
        assert.deepEqual(listedKeys, due, `with the prefix ${JSON.stringify(prefix)}`);
      }
    },
  }),
  rule({
    id: "write-spelling",
    sentence: "a writer writes the key that it is given, in the spelling that it is given in",
    needs: ["backend.write"],
    check: (fixture) => expectOwnSpellings(fixture, (key) => fixture.backend.write(key)),
  }),
  rule({
    id: "steps-spelling",
    sentence: "steps write the key that they are given, in the spelling that it is given in",
    needs: ["backend.writeInSteps"],
    check: (fixture) => expectOwnSpellings(fixture, (key) => fixture.backend.writeInSteps(key)),
  }),
  rule({
    id: "remove-near",
    sentence:
      "remove takes one object: none whose key is longer, differs in a sign or case, or matches as a pattern",
    needs: ["backend.remove"],
    async check(fixture) {
      const { backend, put, traits } = fixture;
      const expected = [
        "r/a",
        "r/a/b.txt",
        "r/a.txt",
        "r/ab",
        "r/a*",
        "r/a?",
        ...(traits?.caseInsensitive ? [] : ["r/A"]),
        ...namesFor(fixture),
      ].filter((key) => !traits?.refuses?.(key));
      // where folders are, an object has nothing below it
      for (const key of expected) await put(key, text(key)).catch(() => {});
      let others = await listKeys(backend);
      for (const key of others) {
        await backend.remove(key);
        others = others.filter((other) => other !== key);
        assert.deepEqual(await listKeys(backend), others, `after remove(${JSON.stringify(key)})`);
      }
      await put("r/empty.bin", new Uint8Array());
      await backend.remove("r/empty.bin");
      await expectCode(() => backend.describe("r/empty.bin"), "not_found");
    },
  }),
];
