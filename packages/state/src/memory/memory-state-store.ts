import { builtInModule, clockSkewMs, readLimits, type ClientLimits } from "@sluice/core/internal";
import {
  claimGrant,
  refundGrant,
  revokeGrant,
  type GrantRecord,
  type GrantTerms,
} from "../contract/grant.ts";
import { createExpiringMap, type EntryRefusal } from "./expiring-map.ts";
import { createBoundSessions } from "./memory-sessions.ts";
import { readSelector, type StateStore, type StateStoreLimits } from "../contract/state-store.ts";
import { storeError } from "../contract/store-error.ts";

/** Options of {@link createMemoryStateStore}. */
export interface MemoryStateStoreOptions extends StateStoreLimits {
  /**
   * Maximum live records of each kind: redeemed grants, revocations, opaque records, bound sessions. `perPrincipal` counts all but
   * revocations; callers without a principal are one. Default: 100,000 in this process, and a tenth of them for a principal.
   */
  readonly records?: Omit<ClientLimits, "perAddress">;
}

/**
 * A state store in this process's memory, for servers that are one process. No live grant, revocation or record is
 * dropped to make room: an owner with its full share is `throttled`, and a store that several owners have filled
 * rejects with `unavailable`, both until something expires. Throws a
 * `TypeError` in a worker of `node:cluster`, whose siblings would each redeem the same grant.
 */
export function createMemoryStateStore(options: MemoryStateStoreOptions = {}): StateStore {
  const { perProcess, perPrincipal = Math.max(1, Math.ceil(perProcess / 10)) } = readLimits(
    "state store: records",
    options.records,
    defaultLimits,
  );
  const cluster = builtInModule("node:cluster") as { readonly isWorker?: boolean } | undefined;
  if (cluster?.isWorker)
    throw new TypeError(
      "state store: memory is not shared between cluster workers; use a store that they share",
    );
  const grants = createExpiringMap<GrantRecord>(perProcess, perPrincipal);
  const records = createExpiringMap<Uint8Array>(perProcess, perPrincipal);
  // without shares: only the host revokes
  const revocations = createExpiringMap<number>(perProcess);
  const sessions = createBoundSessions({ maxSessions: perProcess, maxPerOwner: perPrincipal });

  function isRevoked(terms: GrantTerms, now: number): boolean {
    const { id, principal, resource, issuedAt } = terms;
    return [`id ${id}`, `principal ${principal}`, `resource ${resource}`].some(
      (marker) => (revocations.get(marker, now) ?? -1) >= issuedAt,
    );
  }

  return {
    shared: false,
    async claim(terms, now, body) {
      const grant = isRevoked(terms, now) ? revokeGrant(terms) : grants.get(terms.id, now);
      const { record, claim } = claimGrant(grant, terms, now, body);
      if (record && record !== grant)
        ensureKept(
          "claim",
          grants.set(terms.id, record, {
            now,
            expiresAt: record.forgetAt,
            owner: terms.principal,
          }),
        );
      return claim;
    },
    async refund(id, bytes, now) {
      const record = refundGrant(grants.get(id, now), bytes);
      if (record) grants.replace(id, record);
    },
    async revoke(selector, { now, ttlMs }) {
      const marker = readSelector("state store", selector).join(" ");
      const revokedAt = Math.max(now, revocations.get(marker, now) ?? 0);
      const expiresAt = revokedAt + ttlMs + 2 * clockSkewMs;
      ensureKept("revoke", revocations.set(marker, revokedAt, { now, expiresAt }));
    },
    async put(id, record, terms) {
      if (records.get(id, terms.now)) throw storeError("state store: put", "record_exists");
      ensureKept("put", records.set(id, record.slice(), terms));
    },
    async get(id, now) {
      return records.get(id, now)?.slice();
    },
    async take(id, now) {
      const record = records.get(id, now);
      records.delete(id);
      return record;
    },
    async bindSession(session, terms) {
      if (!sessions.bind(session, terms)) throw storeError("state store: bindSession", "full");
    },
    endSession: async (session, now) => sessions.end(session, now),
    isSessionOver: async (session, now) => sessions.isOver(session, now),
  };
}

const defaultLimits: { readonly perPrincipal: number | undefined; readonly perProcess: number } = {
  perPrincipal: undefined,
  perProcess: 100_000,
};

function ensureKept(method: string, refusal: EntryRefusal | undefined): void {
  if (refusal) throw storeError(`state store: ${method}`, refusal.reason, refusal.retryAfterMs);
}
