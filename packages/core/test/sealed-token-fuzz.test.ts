import { gzipSync } from "node:zlib";
import { createKeyRing, createSealer, generateKey, SluiceError } from "@sluice/core";
import type { KeyRing, Sealer, SealingKey, TokenPurpose } from "@sluice/core";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { randomNumbers } from "./random-numbers.ts";

// no reader needs the stacks of thousands of refusals, and taking them costs most of the time
const { stackTraceLimit } = Error;
beforeAll(() => void (Error.stackTraceLimit = 0));
afterAll(() => void (Error.stackTraceLimit = stackTraceLimit));

const deep = Boolean(process.env["SLUICE_DEEP"]);
const timeout = deep ? 1_800_000 : 20_000;
const runs = (full: number, share = 100) => (deep ? full : full / share);

const keys = createKeyRing([generateKey()]);
const audience = "https://mcp.example.com/mcp";
const sealer = createSealer({ keys, audience });
const now = 1_800_000_000_000;

function opens(by: Sealer, token: string, purpose: TokenPurpose = "download", at = now): boolean {
  try {
    by.unseal(purpose, token, { now: at });
    return true;
  } catch (error) {
    if (SluiceError.is(error) && (error.code === "not_found" || error.code === "expired"))
      return false;
    throw error;
  }
}

const principalOf = (n: number) => ({
  issuer: `iss-${n % 7}`,
  subject: `sub-${n}`,
  clientId: `cl-${n % 3}`,
});

describe("principal, purpose and time", () => {
  test("each of 100 tokens matches only its own of 100 principals", () => {
    const near = { issuer: "iss-0", subject: "sub-0", clientId: "cl-0" };
    const principals = [
      near,
      { ...near, issuer: "iss-1" },
      { ...near, subject: "sub-1" },
      { ...near, clientId: "cl-1" },
      ...Array.from({ length: 96 }, (_, n) => principalOf(n + 100)),
    ];
    const opened = principals.map((principal) =>
      sealer.unseal("download", sealer.seal("download", { key: "a", principal, now }).token, {
        now,
      }),
    );
    const pairs = opened.flatMap((token, t) =>
      principals.flatMap((principal, p) => (token.matchesPrincipal(principal) ? [[t, p]] : [])),
    );
    expect(pairs).toEqual(principals.map((_, n) => [n, n]));
  });

  test("no two different principals share a tag, however their fields are cut", { timeout }, () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "\0", "\u0001", "é"), maxLength: 4 });
    const tuple = fc.record({ issuer: word, subject: word, clientId: word, sessionId: word });
    fc.assert(
      fc.property(tuple, tuple, (one, other) => {
        fc.pre(one.subject !== "" || one.sessionId !== "");
        const { token } = sealer.seal("download", { key: "a", principal: one, now });
        const hasSession = one.sessionId !== "" && other.sessionId !== "";
        const same =
          one.issuer === other.issuer &&
          one.subject === other.subject &&
          one.clientId === other.clientId &&
          (one.sessionId === other.sessionId || (one.subject !== "" && !hasSession));
        const opened = sealer.unseal("download", token, { now });
        expect(opened.matchesPrincipal(other)).toBe(same);
        expect(opened.matchesPrincipal(one)).toBe(true);
      }),
      { numRuns: runs(20_000), seed: 3 },
    );
  });

  test("a token opens with its own purpose, audience and key id only", () => {
    const purposes = ["download", "link", "upload", "resume", "connect"] as const;
    const pair = [generateKey({ kid: "k1" }), generateKey({ kid: "k2", state: "next" })];
    const rings = [
      createKeyRing(pair),
      createKeyRing([
        { kid: "k1", key: pair[1]!.key },
        { kid: "k2", key: pair[0]!.key, state: "next" },
      ]),
    ];
    const sealers = rings.flatMap((ring) =>
      ["https://a.example/mcp", "https://b.example/mcp", "https://a.example/"].map((url) =>
        createSealer({ keys: ring, audience: url }),
      ),
    );
    const made = sealers.flatMap((by) =>
      purposes.map((purpose) => ({ by, purpose, ...by.seal(purpose, { key: "a", now }) })),
    );
    for (const { by, purpose, token } of made)
      for (const other of sealers)
        for (const otherPurpose of purposes)
          for (const kid of ["k1", "k2"])
            expect(opens(other, token.replace("k1", kid), otherPurpose)).toBe(
              other === by && otherPurpose === purpose && kid === "k1",
            );
  });

  test(
    "a token opens from 60 s before it was made to 5 s after its end, and at no other second",
    { tags: "slow" },
    () => {
      const ttl = 300;
      const { token } = sealer.seal("download", {
        key: "a",
        principal: principalOf(1),
        ttlMs: ttl * 1_000,
        now,
      });
      const accepted: number[] = [];
      for (let second = -3_600; second <= 3_600; second++)
        if (opens(sealer, token, "download", now + second * 1_000)) accepted.push(second);
      expect(accepted[0]).toBe(-60);
      expect(accepted.at(-1)).toBe(ttl + 4);
      expect(accepted.length).toBe(ttl + 4 + 60 + 1);
    },
  );
});

describe("contents of a token", () => {
  test("tokens have three lengths and do not compress", { timeout }, () => {
    const random = randomNumbers(4);
    const lengths = new Set<number>();
    const bodies: Buffer[] = [];
    for (let n = 0; n < runs(10_000); n++) {
      const key = `user/${random(1_000)}/${"x".repeat(random(1_000))}`;
      const { token } = sealer.seal("download", {
        key,
        principal: principalOf(random(50)),
        now,
      });
      lengths.add(token.length);
      bodies.push(Buffer.from(token.slice(6), "base64url"));
    }
    expect([...lengths].toSorted((a, b) => a - b)).toEqual([252, 700, 1_596]);
    const all = Buffer.concat(bodies);
    expect(gzipSync(all).length / all.length).toBeGreaterThanOrEqual(0.99);
  });

  test("ids and nonces never repeat", { timeout }, () => {
    const seen = new Set<string>();
    const count = runs(1_000_000, 1_000);
    for (let n = 0; n < count; n++) {
      const { token, id } = sealer.seal("download", { key: "a", now });
      seen.add(id).add(token.slice(6, 38));
    }
    expect(seen.size).toBe(2 * count);
  });
});

test("three rotations over two nodes that follow each other refuse no live token", () => {
  const all = ["r0", "r1", "r2", "r3"].map((kid) => generateKey({ kid }));
  const as = (n: number, state: SealingKey["state"]): SealingKey[] =>
    all[n] ? [{ kid: all[n].kid, key: all[n].key, state: state! }] : [];
  const nodes: KeyRing[] = [createKeyRing([all[0]!]), createKeyRing([all[0]!])];
  const sealers = nodes.map((ring) => createSealer({ keys: ring, audience }));
  const alive: { token: string; expiresAt: number }[] = [];
  let refused = 0;
  let clock = now;
  function second(): void {
    clock += 1_000;
    for (const by of sealers)
      for (let n = 0; n < (deep ? 5 : 1); n++)
        alive.push(by.seal("download", { key: "a", ttlMs: 10_000, now: clock }));
    while (alive[0] && alive[0].expiresAt <= clock) alive.shift();
    for (const by of sealers)
      for (const { token } of alive) if (!opens(by, token, "download", clock)) refused++;
  }
  for (let n = 1; n <= 3; n++) {
    for (const step of [
      [...as(n - 1, "current"), ...as(n, "next")],
      [...as(n, "current"), ...as(n - 1, "previous")],
      as(n, "current"),
    ]) {
      for (const ring of nodes) {
        ring.replace(step);
        second();
      }
      // tokens minted under the old key expire before that key goes
      for (let wait = 0; wait < 11; wait++) second();
    }
  }
  expect(refused).toBe(0);
});
