import { createKeyRing, createSealer, formatKey, generateKey } from "@sluice/core";
import { expect, test } from "vitest";
import { SealedGrants } from "../src/urls/open-grant.ts";

const start = Date.parse("2026-01-01T00:00:00Z");

function createOpener(key = generateKey()) {
  const keys = createKeyRing([key]);
  const sealer = createSealer({ keys, audience: "https://mcp.example.com/mcp" });
  let opened = 0;
  const counting = {
    ...sealer,
    unseal: (...args: Parameters<typeof sealer.unseal>) => {
      opened += 1;
      return sealer.unseal(...args);
    },
  };
  const seal = (terms: object = {}) =>
    sealer.seal("download", { key: "a.bin", now: start, ...terms }).token;
  const grants = new SealedGrants("download", counting, keys);
  const open: SealedGrants["open"] = (token, now) => grants.open(token, now);
  return { keys, seal, open, opened: () => opened };
}

test("the same token within a second is opened once, and gives the same grant", () => {
  const { seal, open, opened } = createOpener();
  const token = seal({ etag: "v1" });
  const first = open(token, start);
  expect(open(token, start + 999)).toBe(first);
  expect(opened()).toBe(1);
  for (let round = 0; round < 2; round++) {
    expect(first.matchesEtag("v1")).toBe(true);
    expect(first.matchesEtag("v2")).toBe(false);
    expect(first.matchesEtag(undefined)).toBe(false);
  }
  open(token, start + 1_000);
  expect(opened()).toBe(2);
});

test("a token ends on time, remembered or not", () => {
  const { seal, open } = createOpener();
  const token = seal({ ttlMs: 10_000 });
  open(token, start + 14_900);
  expect(() => open(token, start + 15_000)).toThrow(expect.objectContaining({ code: "expired" }));
});

test("a key that is withdrawn takes its tokens along at once, remembered or not", () => {
  const { keys, seal, open } = createOpener();
  const token = seal();
  open(token, start);
  const other = generateKey({ kid: "k2" });
  for (const ring of [formatKey(other), formatKey(generateKey()), [other]]) {
    keys.replace(ring);
    expect(() => open(token, start)).toThrow(expect.objectContaining({ code: "not_found" }));
  }
});

test("a token stays open through a rotation", () => {
  const [old, fresh] = [generateKey(), generateKey({ kid: "k2" })];
  const { keys, seal, open } = createOpener(old);
  const token = seal();
  open(token, start);
  keys.replace([old, { kid: fresh.kid, key: fresh.key, state: "next" }]);
  open(token, start);
  keys.replace([{ kid: old.kid, key: old.key, state: "previous" }, fresh]);
  expect(open(token, start).name).toBe("a.bin");
});

test("a token that did not open is not remembered, and the number remembered is bounded", () => {
  const { seal, open, opened } = createOpener();
  for (let round = 0; round < 2; round++)
    expect(() => open("v1.k1.nonsense", start)).toThrow(
      expect.objectContaining({ code: "not_found" }),
    );
  expect(opened()).toBe(2);
  const tokens = Array.from({ length: 257 }, () => seal());
  for (const token of tokens) open(token, start);
  open(tokens[0]!, start);
  expect(opened()).toBe(2 + 258);
});

test("a token beside a remembered one is opened by itself, however much of it is the same", () => {
  const { seal, open } = createOpener();
  const token = seal();
  open(token, start);
  for (let at = 0; at < token.length; at++) {
    const flipped = String.fromCharCode(token.charCodeAt(at) ^ 1);
    const near = token.slice(0, at) + flipped + token.slice(at + 1);
    expect(() => open(near, start)).toThrow(expect.objectContaining({ code: "not_found" }));
  }
  expect(open(token, start).name).toBe("a.bin");
});
