import type { Claim } from "./state-store.ts";

/**
 * How often a grant may be redeemed.
 * - `window`: any number of requests until it expires
 * - `once`: one body-bearing response
 * - `lease`: the first body-bearing request opens a lease; the same holder may go on with
 *   ranges until the last byte was delivered, the lease ends or its requests are used up
 */
export type GrantUse = "window" | "once" | "lease";

/** A permission to move one object, as it was issued. Times are unix milliseconds. */
export interface GrantTerms {
  readonly id: string;
  /** Opaque tag of the holder (`principalTag`); empty for a self-authenticating grant. */
  readonly principal: string;
  /** Opaque tag of the resource (`resourceTag`). */
  readonly resource: string;
  readonly use: GrantUse;
  readonly issuedAt: number;
  readonly expiresAt: number;
}

/** Clocks of one deployment may differ by this much: a grant is over that long after `expiresAt`. */
export const clockSkewMs = 5_000;
/** A lease ends this long after the request that opened it. */
export const leaseMs = 600_000;
/** Requests that one lease allows, the first included. */
export const leaseRequests = 20;

/** Where a grant stands: `issued → leased → spent`; `expired` and `revoked` from any live state. */
export type GrantState = "issued" | "leased" | "spent" | "expired" | "revoked";

/** What must be remembered of a grant once it was redeemed or revoked. Plain data. */
export interface GrantRecord {
  readonly state: "leased" | "spent" | "revoked";
  /** Requests that the lease may still allow; 0 unless `leased`. */
  readonly requestsLeft: number;
  /** End of the lease in unix milliseconds; 0 unless `leased`. */
  readonly leaseEndsAt: number;
  /** From then on (unix milliseconds) the record may be forgotten: the grant is over by itself. */
  readonly forgetAt: number;
}

/** Where a grant with this record stands at `now`. */
export function grantState(
  record: GrantRecord | undefined,
  terms: GrantTerms,
  now: number,
): GrantState {
  if (record?.state === "revoked") return "revoked";
  if (now >= terms.expiresAt + clockSkewMs) return "expired";
  if (!record) return "issued";
  if (record.state === "spent" || record.requestsLeft < 1 || now >= record.leaseEndsAt)
    return "spent";
  return "leased";
}

/**
 * Redeems a grant for one body-bearing response: the next record to keep and the answer.
 * Pure; a store runs it in one atomic step. A `window` grant needs no record, and gives none. Asked
 * for as one, any grant is looked at and none of it used up, as HEAD does.
 */
export function claimGrant(
  record: GrantRecord | undefined,
  terms: GrantTerms,
  now: number,
): { readonly record: GrantRecord | undefined; readonly claim: Claim } {
  const state = grantState(record, terms, now);
  if (state === "leased")
    return grant(terms.use === "window" ? record : continueLease(record!), true);
  if (state !== "issued") return { record, claim: { outcome: state } };
  if (terms.use === "window") return grant(undefined, false);
  if (terms.use === "once") return grant(overRecord("spent", terms), false);
  return grant(openLease(terms, now), false);
}

/** The record after the last byte was delivered: a lease is spent, every other record stays. */
export function settleGrant(record: GrantRecord | undefined): GrantRecord | undefined {
  if (record?.state !== "leased") return record;
  return { ...record, state: "spent", requestsLeft: 0, leaseEndsAt: 0 };
}

/** The record of a grant that was withdrawn, whatever it was before. */
export function revokeGrant(terms: GrantTerms): GrantRecord {
  return overRecord("revoked", terms);
}

function grant(
  record: GrantRecord | undefined,
  continued: boolean,
): { record: GrantRecord | undefined; claim: Claim } {
  return { record, claim: { outcome: "granted", continued } };
}

function openLease(terms: GrantTerms, now: number): GrantRecord {
  return {
    state: "leased",
    requestsLeft: leaseRequests - 1,
    leaseEndsAt: now + leaseMs,
    forgetAt: forgetAt(terms),
  };
}

function continueLease(record: GrantRecord): GrantRecord {
  return { ...record, requestsLeft: record.requestsLeft - 1 };
}

function overRecord(state: "spent" | "revoked", terms: GrantTerms): GrantRecord {
  return { state, requestsLeft: 0, leaseEndsAt: 0, forgetAt: forgetAt(terms) };
}

/** As long as any process could still take the grant for live: twice the skew, one for each clock. */
function forgetAt(terms: GrantTerms): number {
  return terms.expiresAt + 2 * clockSkewMs;
}
