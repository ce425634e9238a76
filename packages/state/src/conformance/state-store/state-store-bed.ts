import type { GrantClaim, GrantTerms, GrantUse } from "@sluice/core";
import type { RecordTerms, StateStore, StateStoreLimits } from "../../contract/state-store.ts";
import { storeCase, storeChecks, type StoreCase, type StoreChecks } from "../store-case.ts";

/** Makes a new, empty store with these bounds. */
export type MakeStateStore = (limits: StateStoreLimits) => StateStore | Promise<StateStore>;

/** One rule that every state store keeps, with the check that shows it. */
export type StateStoreCase = StoreCase<StateStore, [limits: StateStoreLimits]>;

export function rule(
  id: string,
  sentence: string,
  check: (store: StateStore) => Promise<void>,
  limits: StateStoreLimits = {},
): StateStoreCase {
  return storeCase<StateStore, [limits: StateStoreLimits]>(id, sentence, check, limits);
}

const checks = storeChecks("state store");
export const equal: StoreChecks["equal"] = checks.equal;
export const rejects: StoreChecks["rejects"] = checks.rejects;

export const start = 1_800_000_000_000;
export const ttlMs = 3_600_000;
export const owner = "ann";

export function until(lifeMs: number): RecordTerms {
  return { now: start, expiresAt: start + lifeMs, owner };
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
