import type { GrantUse } from "@sluice/core";
import { clockSkewMs, isExpired } from "@sluice/core/internal";

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

/** A lease ends this long after the request that opened it. */
export const leaseMs = 600_000;

/** One body-bearing response that a claim is for. */
export interface ClaimedBody {
  /** Bytes of this response. */
  readonly bytes: number;
  /** Bytes of the whole object. */
  readonly size: number;
}

/** Bytes that the responses of one lease may have together: four times the object, and 1 MiB for small ranges. */
export function leaseAllowance(size: number): number {
  return 4 * size + 1_048_576;
}

/** Bytes that a response counts for in a lease: at least 512, so that the number of requests is bound as well. */
export function leaseCharge(bytes: number): number {
  return Math.max(512, bytes);
}

/** Where a grant stands: `issued → leased → spent`; `expired` and `revoked` from any live state. */
export type GrantState = "issued" | "leased" | "spent" | "expired" | "revoked";

/** The facts to remember of a grant once it was redeemed or revoked. Plain data. */
export interface GrantRecord {
  readonly state: "leased" | "spent" | "revoked";
  /** Bytes that count for responses of the lease; 0 unless `leased`. */
  readonly bytesUsed: number;
  /** End of the lease in unix milliseconds; 0 unless `leased`. */
  readonly leaseEndsAt: number;
  /** From then on (unix milliseconds) the record may be forgotten: the grant expires by itself. */
  readonly forgetAt: number;
}

/** The result of redeeming a grant. */
export type GrantClaim =
  /** Serve the bytes. `continued` is true for a further request within a lease. */
  | { readonly outcome: "granted"; readonly continued: boolean }
  /** Another redemption or the end of the lease spent it, or the lease has too few bytes left for this response. */
  | { readonly outcome: "spent" }
  /** It expired. */
  | { readonly outcome: "expired" }
  /** Withdrawn by `StateStore.revoke`. */
  | { readonly outcome: "revoked" };

/** Where a grant with this record stands at `now`. */
export function grantState(
  record: GrantRecord | undefined,
  terms: GrantTerms,
  now: number,
): GrantState {
  if (record?.state === "revoked") return "revoked";
  if (isExpired(terms.expiresAt, now)) return "expired";
  if (!record) return "issued";
  return record.state === "spent" || now >= record.leaseEndsAt ? "spent" : "leased";
}

/**
 * Redeems a grant for one body-bearing response: the next record to keep and the outcome. Pure; a store runs it in one
 * atomic step. A `window` grant has no record. Any grant may be claimed with `use: "window"`, as for HEAD: it is checked, and
 * nothing of it is used up. `body` counts in leases (default: no bytes). A response that a lease has no bytes left for
 * is `spent`, and takes none; a smaller one may still be granted.
 */
export function claimGrant(
  record: GrantRecord | undefined,
  terms: GrantTerms,
  now: number,
  body: ClaimedBody = { bytes: 0, size: 0 },
): { readonly record: GrantRecord | undefined; readonly claim: GrantClaim } {
  const state = grantState(record, terms, now);
  const charge = leaseCharge(body.bytes);
  if (state === "leased") {
    const bytesUsed = record!.bytesUsed + charge;
    if (bytesUsed > leaseAllowance(body.size)) return { record, claim: { outcome: "spent" } };
    return grant(terms.use === "window" ? record : { ...record!, bytesUsed }, true);
  }
  if (state !== "issued") return { record, claim: { outcome: state } };
  if (terms.use === "window") return grant(undefined, false);
  if (terms.use === "once") return grant(overRecord("spent", terms), false);
  const lease = { state: "leased", bytesUsed: charge, leaseEndsAt: now + leaseMs } as const;
  return grant({ ...lease, forgetAt: forgetAt(terms) }, false);
}

/** The record when bytes that were claimed were not sent: a lease has them again, every other record stays. */
export function refundGrant(
  record: GrantRecord | undefined,
  bytes: number,
): GrantRecord | undefined {
  if (record?.state !== "leased") return record;
  return { ...record, bytesUsed: Math.max(0, record.bytesUsed - bytes) };
}

/** The record of a grant that was withdrawn, whatever it was before. */
export function revokeGrant(terms: GrantTerms): GrantRecord {
  return overRecord("revoked", terms);
}

function grant(
  record: GrantRecord | undefined,
  continued: boolean,
): { record: GrantRecord | undefined; claim: GrantClaim } {
  return { record, claim: { outcome: "granted", continued } };
}

function overRecord(state: "spent" | "revoked", terms: GrantTerms): GrantRecord {
  return { state, bytesUsed: 0, leaseEndsAt: 0, forgetAt: forgetAt(terms) };
}

/** As long as any process could still take the grant for live: twice the skew, one for each clock. */
function forgetAt(terms: GrantTerms): number {
  return terms.expiresAt + 2 * clockSkewMs;
}
