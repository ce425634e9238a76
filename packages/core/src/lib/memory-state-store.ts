import { builtInModule } from "./built-in-module.ts";
import { SluiceError } from "./error.ts";
import { createExpiringMap } from "./expiring-map.ts";
import {
  claimGrant,
  clockSkewMs,
  revokeGrant,
  settleGrant,
  type GrantRecord,
  type GrantTerms,
} from "./grant.ts";
import type { GrantSelector, StateStore } from "./state-store.ts";

/** Options of {@link createMemoryStateStore}. */
export interface MemoryStateStoreOptions {
  /** Most live records of each kind: redeemed grants, revocations, opaque records. Default 100,000. */
  readonly maxRecords?: number;
}

/**
 * A state store in this process's memory, for servers that are one process. Nothing live is ever
 * dropped to make room: a full store rejects with `unavailable` until something expires. Throws a
 * `TypeError` in a worker of `node:cluster`, whose siblings would each redeem the same grant.
 */
export function createMemoryStateStore(options: MemoryStateStoreOptions = {}): StateStore {
  const { maxRecords = 100_000 } = options;
  const cluster = builtInModule("node:cluster") as { readonly isWorker?: boolean } | undefined;
  if (cluster?.isWorker)
    throw new TypeError(
      "state store: memory is not shared between cluster workers; use a store that they share",
    );
  const grants = createExpiringMap<GrantRecord>(maxRecords);
  const revocations = createExpiringMap<number>(maxRecords);
  const records = createExpiringMap<Uint8Array>(maxRecords);

  function isRevoked(terms: GrantTerms, now: number): boolean {
    const { id, principal, resource, issuedAt } = terms;
    return [{ id }, { principal }, { resource }].some(
      (selector) => (revocations.get(markerOf(selector), now) ?? -1) >= issuedAt,
    );
  }

  return {
    shared: false,
    async claim(terms, now) {
      const kept = isRevoked(terms, now) ? revokeGrant(terms) : grants.get(terms.id, now);
      const { record, claim } = claimGrant(kept, terms, now);
      if (record && record !== kept)
        ensureKept(grants.set(terms.id, record, { now, expiresAt: record.forgetAt }));
      return claim;
    },
    async settle(id, now) {
      const record = settleGrant(grants.get(id, now));
      if (record) grants.set(id, record, { now, expiresAt: record.forgetAt });
    },
    async revoke(selector, { now, ttlMs }) {
      ensureSelector(selector);
      const marker = markerOf(selector);
      const revokedAt = Math.max(now, revocations.get(marker, now) ?? 0);
      ensureKept(
        revocations.set(marker, revokedAt, { now, expiresAt: revokedAt + ttlMs + 2 * clockSkewMs }),
      );
    },
    async put(id, record, times) {
      if (records.get(id, times.now))
        throw new SluiceError(
          "already_exists",
          "state store: put: a record with this id is kept already",
        );
      ensureKept(records.set(id, record.slice(), times));
    },
    async get(id, now) {
      return records.get(id, now)?.slice();
    },
    async take(id, now) {
      const record = records.get(id, now);
      records.delete(id);
      return record;
    },
  };
}

function markerOf(selector: GrantSelector): string {
  const [[kind, value] = []] = Object.entries(selector);
  return `${kind} ${value}`;
}

/** A self-authenticating grant has an empty principal: revoking that would revoke them all. */
function ensureSelector(selector: GrantSelector): void {
  const [value, ...others] = Object.values(selector) as unknown[];
  if (typeof value !== "string" || value === "" || others.length > 0)
    throw new TypeError("state store: revoke: name one id, principal or resource");
}

function ensureKept(kept: boolean): void {
  if (!kept)
    throw new SluiceError("unavailable", "state store: full of live records; try again later", {
      retryAfterMs: 1_000,
    });
}
