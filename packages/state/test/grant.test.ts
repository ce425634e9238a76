import { clockSkewMs } from "@sluice/core/internal";
import { claimGrant, refundGrant, type GrantRecord, type GrantTerms } from "@sluice/state";
import { leaseAllowance, leaseCharge, leaseMs } from "@sluice/state/internal";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { grantState, revokeGrant } from "../src/contract/grant.ts";

const numRuns = process.env["SLUICE_DEEP"] ? 50_000 : 2_000;
const start = 1_800_000_000_000;

const anyTerms: fc.Arbitrary<GrantTerms> = fc.record({
  id: fc.constant("grant"),
  principal: fc.constant("alice"),
  resource: fc.constant("a.bin"),
  use: fc.constantFrom("window", "once", "lease"),
  issuedAt: fc.constant(start),
  expiresAt: fc.integer({ min: 1, max: 3_600 }).map((seconds) => start + seconds * 1_000),
});

const size = 1_000_000;

/** Steps of a life: the clock moves on, and a claim, the end of the response before, or a revocation happens. */
const anySteps = fc.array(
  fc.record({
    wait: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400_000 })),
    act: fc.oneof(
      { weight: 10, arbitrary: fc.constant("claim") },
      { weight: 2, arbitrary: fc.constant("refund") },
      { weight: 1, arbitrary: fc.constant("revoke") },
    ),
    bytes: fc.oneof(fc.integer({ min: 0, max: size }), fc.integer({ min: 0, max: 2_000 })),
  }),
  { maxLength: 60 },
);

interface Moment {
  readonly act: string;
  readonly now: number;
  readonly state: string;
  readonly outcome?: string;
  readonly continued?: boolean;
  /** A claim, or bytes given back. */
  readonly bytes: number;
}

function live(
  terms: GrantTerms,
  steps: readonly { wait: number; act: string; bytes: number }[],
): Moment[] {
  let record: GrantRecord | undefined;
  let now = start;
  let claimed = 0;
  return steps.map(({ wait, act, bytes }) => {
    now += wait;
    const unsent = Math.min(bytes, claimed);
    if (act === "refund") {
      record = refundGrant(record, unsent);
      claimed -= unsent;
    }
    if (act === "revoke") record = revokeGrant(terms);
    const result = act === "claim" ? claimGrant(record, terms, now, { bytes, size }) : undefined;
    if (result) record = result.record;
    if (result?.claim.outcome === "granted") claimed += leaseCharge(bytes);
    return {
      act,
      now,
      state: grantState(record, terms, now),
      ...result?.claim,
      bytes: act === "refund" ? unsent : bytes,
    };
  });
}

/** A life of which the statement is false; nothing when it holds for all that were tried. */
function exception(
  seed: number,
  holds: (terms: GrantTerms, moments: readonly Moment[]) => boolean,
): unknown {
  const property = fc.property(anyTerms, anySteps, (terms, steps) =>
    holds(terms, live(terms, steps)),
  );
  return fc.check(property, { numRuns, seed }).counterexample;
}

describe("any life of a grant", () => {
  test("nothing is granted once it expired or was revoked", () => {
    expect(
      exception(1, (terms, moments) => {
        const revoked = moments.findIndex(({ act }) => act === "revoke");
        return moments.every(
          ({ outcome, now }, n) =>
            outcome !== "granted" ||
            (now < terms.expiresAt + clockSkewMs && (revoked < 0 || n < revoked)),
        );
      }),
    ).toBeNull();
  });

  test("a once grant is granted once at most", () => {
    expect(
      exception(2, ({ use }, moments) => use !== "once" || grantedOf(moments).length <= 1),
    ).toBeNull();
  });

  test("a lease is granted within its time, and never more bytes are out than it allows", () => {
    expect(
      exception(3, ({ use }, moments) => {
        const granted = grantedOf(moments);
        const [first] = granted;
        if (use !== "lease" || !first) return true;
        let out = 0;
        const isBounded = moments.every(({ act, outcome, bytes }) => {
          if (outcome === "granted") out += leaseCharge(bytes);
          if (act === "refund") out -= bytes;
          return out <= leaseAllowance(size);
        });
        return (
          isBounded &&
          granted.every(({ now, continued }, n) => now < first.now + leaseMs && continued === n > 0)
        );
      }),
    ).toBeNull();
  });

  test("the first claim in time is granted unless it was revoked before", () => {
    expect(
      exception(4, (terms, moments) => {
        const first = moments.find(({ act }) => act !== "refund");
        const inTime = first?.act === "claim" && first.now < terms.expiresAt + clockSkewMs;
        return !inTime || first.outcome === "granted";
      }),
    ).toBeNull();
  });

  test("states only move forward", () => {
    const order = ["issued", "leased", "spent", "expired", "revoked"];
    expect(
      exception(5, (_, moments) =>
        moments.every(
          ({ state }, n) => n === 0 || order.indexOf(state) >= order.indexOf(moments[n - 1]!.state),
        ),
      ),
    ).toBeNull();
  });
});

function grantedOf(moments: readonly Moment[]): Moment[] {
  return moments.filter(({ outcome }) => outcome === "granted");
}

test("claiming leaves the record it was given as it was", () => {
  const terms: GrantTerms = {
    id: "g",
    principal: "",
    resource: "r",
    use: "lease",
    issuedAt: start,
    expiresAt: start + 60_000,
  };
  const { record } = claimGrant(undefined, terms, start);
  const before = JSON.stringify(record);
  claimGrant(Object.freeze(record), terms, start + 1);
  refundGrant(Object.freeze(record), 1);
  expect(JSON.stringify(record)).toBe(before);
  expect(JSON.parse(before)).toEqual(record);
});
