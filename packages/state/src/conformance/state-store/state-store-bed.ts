import type { GrantUse } from "@sluice/core";
import type { GrantClaim, GrantTerms } from "../../contract/grant.ts";
import type { RecordTerms, StateStore, StateStoreLimits } from "../../contract/state-store.ts";
import { createStoreKit, type StoreCase, type StoreKit } from "../store-kit.ts";

/** One rule that every state store keeps, with the check that shows it. */
export type StateStoreCase = StoreCase<StateStore, StateStoreLimits>;

export const kit: StoreKit<StateStore, StateStoreLimits> = createStoreKit("state store", {});
const { equal } = kit;

export const start = 1_800_000_000_000;
export const ttlMs = 3_600_000;
/** Something of Ann that is kept for so long. */
export function until(lifeMs: number): RecordTerms {
  return { now: start, expiresAt: start + lifeMs, owner: "ann" };
}

export function terms(use: GrantUse, other: Partial<GrantTerms> = {}): GrantTerms {
  return {
    id: "grant",
    principal: "alice",
    resource: "a.bin",
    use,
    issuedAt: start,
    expiresAt: start + ttlMs,
    ...other,
  };
}

export function granted(claim: GrantClaim, continued: boolean): void {
  outcome(claim, "granted");
  if (claim.outcome === "granted") equal(claim.continued, continued, "continued");
}

export function outcome(claim: GrantClaim, expected: GrantClaim["outcome"]): void {
  equal(claim.outcome, expected, "the outcome of a claim");
}

export function bytes(...values: readonly number[]): Uint8Array {
  return Uint8Array.from(values);
}
