import { builtInModule, clockSkewMs, readLimits, type ClientLimits } from "@sluice/core/internal";
import {
  claimGrant,
  type GrantRecord,
  type GrantTerms,
  refundGrant,
  revokeGrant,
} from "../contract/grant.ts";
import {
  readSelector,
  type RecordTerms,
  type StateStore,
  type StateStoreLimits,
} from "../contract/state-store.ts";
import { storeError } from "../contract/store-error.ts";
import { createExpiringMap, type EntryRefusal } from "./expiring-map.ts";

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
      "state store: memory is not shared between cluster workers; pass `stores: createRedisStores(…)` of @sluice/state-redis, or run one process without a cluster (with pm2: fork mode)",
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

/** Sessions that something is bound to, and which of them have ended. Times are unix milliseconds. */
interface BoundSessions {
  /** False when the map is full of live sessions of other owners. */
  bind(session: string, terms: RecordTerms): boolean;
  /** Marks a session that is known; others leave nothing behind. */
  end(session: string, now: number): void;
  isOver(session: string, now: number): boolean;
}

/**
 * Makes the map. At its bound an owner's oldest session is forgotten for its new one: no owner can
 * push out a session of another.
 */
function createBoundSessions(bounds: {
  readonly maxSessions: number;
  readonly maxPerOwner: number;
}): BoundSessions {
  const { maxSessions, maxPerOwner } = bounds;
  const sessions = new Map<string, BoundSession>();
  const owners = new Map<string, Set<string>>();
  let sweptAt = -Infinity;

  function forget(session: string): void {
    const { owner } = sessions.get(session)!;
    sessions.delete(session);
    const ownSessions = owners.get(owner)!;
    ownSessions.delete(session);
    if (ownSessions.size === 0) owners.delete(owner);
  }

  function known(session: string, now: number): BoundSession | undefined {
    const found = sessions.get(session);
    return found && found.expiresAt > now ? found : undefined;
  }

  function sweep(now: number): void {
    // a sweep visits every session: once a second at most
    if (Math.abs(now - sweptAt) < sweepPauseMs) return;
    sweptAt = now;
    for (const [session, { expiresAt }] of sessions) if (expiresAt <= now) forget(session);
  }

  return {
    bind(session, { owner, now, expiresAt }) {
      const before = known(session, now);
      if (before) {
        before.expiresAt = Math.max(before.expiresAt, expiresAt);
        return true;
      }
      if (sessions.has(session)) forget(session);
      const ownSessions = owners.get(owner);
      if (ownSessions && ownSessions.size >= maxPerOwner)
        forget(ownSessions.values().next().value!);
      if (sessions.size >= maxSessions) sweep(now);
      if (sessions.size >= maxSessions) return false;
      sessions.set(session, { owner, expiresAt, isOver: false });
      owners.set(owner, (owners.get(owner) ?? new Set()).add(session));
      return true;
    },
    end(session, now) {
      const found = known(session, now);
      if (found) found.isOver = true;
    },
    isOver: (session, now) => known(session, now)?.isOver ?? false,
  };
}

interface BoundSession {
  readonly owner: string;
  expiresAt: number;
  isOver: boolean;
}

const sweepPauseMs = 1_000;
