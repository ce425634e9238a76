import {
  createKeyRing,
  createSealer,
  generateKey,
  principalTag,
  resourceTag,
  type Principal,
} from "@sluice/core";
import * as fc from "fast-check";
import { expect, test } from "vitest";

const numRuns = process.env["SLUICE_DEEP"] ? 100_000 : 3_000;
const user = { issuer: "https://id.example", subject: "user-1", clientId: "client-1" };

function tagOf([issuer, subject, clientId, sessionId]: readonly string[]): string {
  return principalTag({ issuer, subject, clientId, sessionId } as Principal);
}

test("a tag is 64 hex digits, equal for equal principals, and tells nothing", () => {
  expect(principalTag(user)).toMatch(/^[0-9a-f]{64}$/);
  expect(principalTag({ ...user })).toBe(principalTag(user));
  expect(principalTag({ ...user, sessionId: "" })).toBe(principalTag(user));
  expect(resourceTag("a.bin")).toMatch(/^[0-9a-f]{64}$/);
  expect(resourceTag("a.bin")).not.toBe(resourceTag("b.bin"));
  expect(resourceTag("")).not.toBe(principalTag(user));
});

test("every field counts, and fields are never run together", () => {
  const word = fc.string({ unit: fc.constantFrom("a", "b", "\0", "é"), maxLength: 3 });
  const tuple = fc.tuple(word, word, word, word).filter(([, subject]) => subject !== "");
  const property = fc.property(
    tuple,
    tuple,
    (one, other) => (one.join("|") === other.join("|")) === (tagOf(one) === tagOf(other)),
  );
  expect(fc.check(property, { numRuns, seed: 1 }).counterexample).toBeNull();
});

test("neither a client id by itself nor anything but text is a principal", () => {
  for (const wrong of [
    { ...user, subject: "" },
    { ...user, subject: "", sessionId: "" },
    { ...user, subject: "a\ud800" },
    { ...user, issuer: undefined },
    { ...user, clientId: 7 },
    { ...user, subject: "x".repeat(65_536) },
  ])
    expect(() => principalTag(wrong as Principal)).toThrow(TypeError);
  expect(principalTag({ ...user, subject: "", sessionId: "s" })).toMatch(/^[0-9a-f]{64}$/);
});

test.each([
  [{ subject: "user-1" }, "issuer and clientId are not"],
  [{ subject: "user-1", issuer: "https://id.example" }, "clientId is not"],
  [{ ...user, subject: 7 }, "subject is not"],
  [{ ...user, subject: "" }, "a sessionId that is not empty"],
])("the error for %j names the members that are wrong", (wrong, words) => {
  const message = new RegExp(`${words}$`);
  expect(() => principalTag(wrong as unknown as Principal)).toThrow(message);
});

/** One user in requests that say different things of it. */
const inRequests: readonly Principal[] = [
  user,
  { ...user, scopes: [], claims: {} },
  { ...user, scopes: ["files:read"], claims: { role: "PI", approved_trials: ["a"] } },
  { ...user, scopes: undefined, claims: { sub: "user-2", iss: "https://evil.example" } },
  { ...user, claims: { big: "x".repeat(100_000) } },
];

test("scopes and claims do not identify a principal: neither its tag nor its tokens have them", () => {
  const sealer = createSealer({
    keys: createKeyRing([generateKey()]),
    audience: "https://m.example",
  });
  for (const one of inRequests) {
    expect(principalTag(one)).toBe(principalTag(user));
    const { token } = sealer.seal("download", { key: "a.bin", principal: one });
    expect(token).toHaveLength(252);
    const opened = sealer.unseal("download", token);
    for (const other of inRequests) {
      expect(opened.matchesPrincipal(other)).toBe(true);
      expect(opened.matchesPrincipal({ ...other, subject: "user-2" })).toBe(false);
    }
  }
});
