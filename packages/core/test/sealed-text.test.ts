import { createKeyRing, generateKey } from "@sluice/core";
import { createTextSealer } from "@sluice/core/internal";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

const keys = createKeyRing([generateKey()]);
const context = ["files://demo/", "alice"];
const cursors = createTextSealer({ keys, purpose: "cursor" });
const refusal = expect.objectContaining({ code: "invalid_argument" });

describe("a sealed text", () => {
  test("comes back as it was, whatever it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), (text) => {
        expect(cursors.unseal(cursors.seal(text, context), context)).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  test("shows nothing: two of one text differ, and names of like length look alike", () => {
    expect(cursors.seal("a", context)).not.toBe(cursors.seal("a", context));
    expect(cursors.seal("a", context)).toHaveLength(cursors.seal("a".repeat(100), context).length);
  });

  test("is refused after any change of a character, a removal or an addition", () => {
    const sealed = cursors.seal("secret/name.txt", context);
    for (let at = 0; at < sealed.length; at++) {
      const other = sealed[at] === "A" ? "B" : "A";
      for (const text of [
        sealed.slice(0, at) + other + sealed.slice(at + 1),
        sealed.slice(0, at) + sealed.slice(at + 1),
        `${sealed.slice(0, at)}A${sealed.slice(at)}`,
      ])
        expect(() => cursors.unseal(text, context)).toThrow(refusal);
    }
  });

  test("is good for its purpose, its context and its keys only", () => {
    const sealed = cursors.seal("x", context);
    const other = createTextSealer({ keys, purpose: "page" });
    const stranger = createTextSealer({
      keys: createKeyRing([generateKey()]),
      purpose: "cursor",
    });
    expect(() => other.unseal(sealed, context)).toThrow(refusal);
    expect(() => stranger.unseal(sealed, context)).toThrow(refusal);
    for (const foreign of [["files://demo/", "bob"], ["files://demo/alice", ""], [], [context[0]!]])
      expect(() => cursors.unseal(sealed, foreign)).toThrow(refusal);
  });

  test("opens with its secret only, whatever keys and context there are", () => {
    const sealed = cursors.seal("x", context, "secret");
    expect(cursors.unseal(sealed, context, "secret")).toBe("x");
    for (const wrong of ["secre", "Secret", "", undefined])
      expect(() => cursors.unseal(sealed, context, wrong)).toThrow(refusal);
    expect(() => cursors.unseal(cursors.seal("x", context), context, "secret")).toThrow(refusal);
  });

  test("survives a rotation while its key is in the ring", () => {
    const old = generateKey({ kid: "k1" });
    const ring = createKeyRing([old]);
    const sealer = createTextSealer({ keys: ring, purpose: "cursor" });
    const sealed = sealer.seal("x", context);
    const next = generateKey({ kid: "k2" });
    ring.replace([next, { kid: "k1", key: old.key, state: "previous" }]);
    expect(sealer.unseal(sealed, context)).toBe("x");
    ring.replace([next]);
    expect(() => sealer.unseal(sealed, context)).toThrow(refusal);
  });

  test("is not looked at when it is too long, and nothing odd gets further than a refusal", () => {
    for (const text of [
      "",
      ".",
      "v1.k1.",
      "v1.k1.A",
      "v1.k1.====",
      "A".repeat(20_000),
      `v1.k1.${"A".repeat(20_000)}`,
    ])
      expect(() => cursors.unseal(text, context)).toThrow(refusal);
    expect(() => cursors.seal("\ud800", context)).toThrow(TypeError);
  });
});
