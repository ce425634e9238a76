import { createKeyRing, generateKey } from "@sluice/core";
import { createTextSealer } from "@sluice/core/internal";
import type { StateStore } from "@sluice/state";
import { createSealedRecords, createMemoryStateStore } from "@sluice/state/internal";
import { beforeEach, describe, expect, test } from "vitest";

const secret = "s".repeat(32);
const context = ["https://a.example/mcp"];
const now = 1_000_000;
const terms = { now, expiresAt: now + 60_000, owner: "o" };

function recordsOver(state: StateStore, keys = createKeyRing([generateKey()])) {
  const sealer = createTextSealer({ keys, purpose: "test" });
  return createSealedRecords({ state, sealer, kind: "test" });
}

describe("sealed records", () => {
  let kept: Map<string, Uint8Array>;
  let state: StateStore;

  beforeEach(() => {
    kept = new Map();
    const memory = createMemoryStateStore();
    state = {
      ...memory,
      async put(id, record, given) {
        kept.set(id, record);
        await memory.put(id, record, given);
      },
    };
  });

  test("a text is found by its secret and context, and by nothing else", async () => {
    const records = recordsOver(state);
    await records.keep(secret, "text", context, terms);
    expect(await records.find(secret, context, now)).toBe("text");
    const wrong: [string, string[]][] = [
      ["t".repeat(32), context],
      [secret, ["https://b.example/mcp"]],
      [secret, []],
    ];
    for (const [other, elsewhere] of wrong)
      await expect(records.find(other, elsewhere, now)).rejects.toMatchObject({
        code: "invalid_argument",
      });
    await expect(records.find(secret, context, terms.expiresAt + 1)).rejects.toMatchObject({
      code: "invalid_argument",
    });
  });

  test("a reader of the store finds neither the secret nor the text", async () => {
    await recordsOver(state).keep(secret, "the text", context, terms);
    const [[id, record] = ["", new Uint8Array()]] = kept;
    const seen = id + new TextDecoder().decode(record);
    expect(seen).not.toContain(secret);
    expect(seen).not.toContain("the text");
  });

  test("a record that a writer to the store moved under another secret opens nothing", async () => {
    const keys = createKeyRing([generateKey()]);
    const other = "u".repeat(32);
    await recordsOver(state, keys).keep(secret, "text", context, terms);
    await recordsOver(state, keys).keep(other, "other", context, terms);
    const [first, second] = [...kept.keys()] as [string, string];
    const get = (id: string) => state.get(id === first ? second : first, now);
    const swapped = recordsOver({ ...state, get }, keys);
    await expect(swapped.find(secret, context, now)).rejects.toMatchObject({
      code: "invalid_argument",
    });
  });

  test("a key that leaves the ring takes its records along", async () => {
    await recordsOver(state).keep(secret, "text", context, terms);
    await expect(recordsOver(state).find(secret, context, now)).rejects.toMatchObject({
      code: "invalid_argument",
    });
  });

  test("a record opens with its secret only, whoever has the keys", async () => {
    const keys = createKeyRing([generateKey()]);
    await recordsOver(state, keys).keep(secret, "text", context, terms);
    const [record] = [...kept.values()];
    const text = new TextDecoder().decode(record);
    const sealer = createTextSealer({ keys, purpose: "test" });
    for (const guess of [undefined, "t".repeat(32)])
      for (const around of [context, [...context, secret]])
        expect(() => sealer.unseal(text, around, guess)).toThrow(/not one of ours/);
    expect(sealer.unseal(text, context, secret)).toBe("text");
  });

  test("exactly one of all calls takes a record", async () => {
    const records = recordsOver(state);
    await records.keep(secret, "text", context, terms);
    const taken = await Promise.all([records.take(secret, now), records.take(secret, now)]);
    expect(taken.filter(Boolean)).toHaveLength(1);
  });
});
