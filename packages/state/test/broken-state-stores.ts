import { SluiceError } from "@sluice/core";
import { clockSkewMs } from "@sluice/core/internal";
import {
  claimGrant,
  refundGrant,
  type GrantClaim,
  type GrantRecord,
  type GrantTerms,
  type StateStore,
  type StateStoreLimits,
} from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";

type MakeBroken = (limits: StateStoreLimits) => StateStore;

/** For every rule of the state store, a store that breaks it. */
export const brokenStateStores: Readonly<Record<string, MakeBroken>> = {
  "says-shared": changed(() => ({ shared: undefined as unknown as boolean })),
  "claim-window": claiming((terms) => ({
    ...terms,
    use: terms.use === "window" ? "once" : terms.use,
  })),
  "claim-once": checkThenSet(),
  "claim-until-end": forgetting((terms, now) => now >= terms.expiresAt),
  // how long a claim is kept is counted from the clock of the caller, in a store that has its own
  "claim-skewed": changed((store) => {
    let clock: number | undefined;
    const forgetAt = new Map<string, number>();
    return {
      async claim(terms, now, body) {
        clock ??= now;
        if (terms.use !== "once") return store.claim(terms, now, body);
        const isKept = now < (forgetAt.get(terms.id) ?? -Infinity);
        forgetAt.set(terms.id, clock + terms.expiresAt + 2 * clockSkewMs - now);
        return isKept ? { outcome: "spent" } : store.claim({ ...terms, use: "window" }, now, body);
      },
    };
  }),
  // evicts the least recent
  "claim-kept": changed((store) => {
    const spent = new Set<string>();
    return {
      async claim(terms, now, body) {
        if (terms.use !== "once") return store.claim(terms, now, body);
        const isSpent = spent.has(terms.id);
        spent.add(terms.id);
        if (spent.size > 500) spent.delete(spent.values().next().value!);
        return isSpent ? { outcome: "spent" } : store.claim({ ...terms, use: "window" }, now, body);
      },
    };
  }),
  "claim-expired": claiming((terms) => ({ ...terms, expiresAt: Infinity })),
  "claim-look": claiming((terms) =>
    terms.use === "window" ? { ...terms, id: `of ${terms.id}` } : terms,
  ),
  // a small response counts for nothing
  "lease-bytes": changed((store) => ({
    claim: (terms, now, body) =>
      store.claim(body && body.bytes < 512 ? { ...terms, use: "window" } : terms, now, body),
  })),
  "lease-ends": keeping((record) => ({ ...record, leaseEndsAt: Infinity })),
  "refund-lease": changed(() => ({ async refund() {} })),
  // bytes given back to one are given to all
  "refund-others": changed((store) => {
    const ids = new Set<string>();
    return {
      claim(terms, now, body) {
        ids.add(terms.id);
        return store.claim(terms, now, body);
      },
      async refund(_id, bytes, now) {
        for (const id of ids) await store.refund(id, bytes, now);
      },
    };
  }),
  "revoke-id": revokingAllBut("id"),
  "revoke-principal": revokingAllBut("principal"),
  "revoke-resource": revokingAllBut("resource"),
  "revoke-exact": changed((store) => ({
    async revoke(selector, options) {
      const [value = ""] = Object.values<string>(selector);
      for (const any of [{ id: value }, { principal: value }, { resource: value }])
        await store.revoke(any, options);
    },
  })),
  "revoke-later": changed((store) => ({
    revoke: (selector, { ttlMs }) =>
      store.revoke(selector, { now: Number.MAX_SAFE_INTEGER, ttlMs }),
  })),
  "revoke-lasts": changed((store) => ({
    revoke: (selector, { now }) => store.revoke(selector, { now, ttlMs: 0 }),
  })),
  "put-get": changed((store) => {
    const records = new Map<string, Uint8Array>();
    return {
      async put(id, record, times) {
        await store.put(id, record, times);
        records.set(id, record);
      },
      get: async (id, now) => (await store.get(id, now)) && records.get(id),
    };
  }),
  "put-exists": changed((store) => ({
    async put(id, record, times) {
      await store.take(id, times.now);
      await store.put(id, record, times);
    },
  })),
  "put-expires": changed((store) => ({
    put: (id, record, terms) => store.put(id, record, { ...terms, expiresAt: Infinity }),
  })),
  "take-once": changed((store) => ({
    async take(id, now) {
      const record = await store.get(id, now);
      await store.take(id, now);
      return record;
    },
  })),
  "kinds-apart": changed((store) => {
    const ids = new Set<string>();
    return {
      async put(id, record, times) {
        ids.add(id);
        await store.put(id, record, times);
      },
      claim: async (terms, now, body) =>
        ids.has(terms.id) ? { outcome: "spent" } : store.claim(terms, now, body),
    };
  }),
  // one map for everybody: the flood of one is the outage of all
  "share-bound": changed((store) => ({
    put: (id, record, terms) => store.put(id, record, { ...terms, owner: "" }),
  })),
  "share-together": checkThenPut(),
  "share-lapses": changed((store, { records: { perPrincipal = Infinity } = {} }) => {
    const counts = new Map<string, number>();
    return {
      async put(id, record, terms) {
        const count = (counts.get(terms.owner) ?? 0) + 1;
        if (count > perPrincipal) throw throttled();
        counts.set(terms.owner, count);
        await store.put(id, record, terms);
      },
    };
  }),
  // binding again puts a live session in the place of an ended one
  "session-ends": changed((store) => {
    const lives = new Map<string, number>();
    return {
      async bindSession(session, binding) {
        const life = (lives.get(session) ?? 0) + 1;
        lives.set(session, life);
        await store.bindSession(`${session} ${life}`, binding);
      },
      endSession: (session, now) => store.endSession(`${session} ${lives.get(session)}`, now),
      isSessionOver: (session, now) => store.isSessionOver(`${session} ${lives.get(session)}`, now),
    };
  }),
  // as it was: every DELETE leaves a record
  "session-unbound": changed((store) => ({
    async endSession(session, now) {
      await store.bindSession(session, { now, expiresAt: now + 3_600_000, owner: session });
      await store.endSession(session, now);
    },
  })),
  "session-lapses": changed((store) => ({
    bindSession: (session, binding) =>
      store.bindSession(session, { ...binding, expiresAt: Infinity }),
  })),
  "session-share": changed((store) => ({
    bindSession: (session, binding) => store.bindSession(session, { ...binding, owner: "" }),
  })),
  "close-twice": changed(() => {
    let isOpen = true;
    return {
      async close() {
        if (!isOpen) throw new SluiceError("internal", "state store: closed already");
        isOpen = false;
      },
    };
  }),
};

function changed(
  change: (store: StateStore, limits: StateStoreLimits) => Partial<StateStore>,
): MakeBroken {
  return (limits) => {
    const store = createMemoryStateStore(limits);
    return { ...store, ...change(store, limits) };
  };
}

function claiming(change: (terms: GrantTerms) => GrantTerms): MakeBroken {
  return changed((store) => ({
    claim: (terms, now, body) => store.claim(change(terms), now, body),
  }));
}

function forgetting(isOver: (terms: GrantTerms, now: number) => boolean): MakeBroken {
  return changed((store) => ({
    claim: (terms, now, body) =>
      (isOver(terms, now) ? createMemoryStateStore() : store).claim(terms, now, body),
  }));
}

/** Redeems leases by the book but keeps another record than it should. */
function keeping(change: (record: GrantRecord) => GrantRecord): MakeBroken {
  return changed((store) => {
    const records = new Map<string, GrantRecord | undefined>();
    return {
      async claim(terms, now, body) {
        if (terms.use !== "lease") return store.claim(terms, now, body);
        const live = await store.claim({ ...terms, use: "window" }, now, body);
        if (live.outcome !== "granted") return live;
        const { record, claim } = claimGrant(records.get(terms.id), terms, now, body);
        records.set(terms.id, record?.state === "leased" ? change(record) : record);
        return claim;
      },
      refund: async (id, bytes) => void records.set(id, refundGrant(records.get(id), bytes)),
    };
  });
}

/** The usual mistake: look first, write later, with a pause in between. */
function checkThenSet(): MakeBroken {
  return changed((store) => {
    const spent = new Set<string>();
    return {
      async claim(terms, now, body): Promise<GrantClaim> {
        if (terms.use !== "once") return store.claim(terms, now, body);
        const isSpent = spent.has(terms.id);
        await Promise.resolve();
        spent.add(terms.id);
        return isSpent ? { outcome: "spent" } : store.claim({ ...terms, use: "window" }, now, body);
      },
    };
  });
}

/** The same mistake with shares. */
function checkThenPut(): MakeBroken {
  return changed((store, { records: { perPrincipal = Infinity } = {} }) => {
    const kept = new Map<string, { readonly owner: string; readonly expiresAt: number }>();
    return {
      async put(id, record, terms) {
        const own = [...kept.values()].filter(
          ({ owner, expiresAt }) => owner === terms.owner && expiresAt > terms.now,
        );
        await Promise.resolve();
        if (own.length >= perPrincipal) throw throttled();
        await store.put(id, record, { ...terms, owner: id });
        kept.set(id, terms);
      },
      async take(id, now) {
        kept.delete(id);
        return store.take(id, now);
      },
    };
  });
}

function throttled(): SluiceError {
  return new SluiceError("throttled", "state store: full", { retryAfterMs: 1_000 });
}

function revokingAllBut(kind: string): MakeBroken {
  return changed((store) => ({
    revoke: async (selector, options) =>
      kind in selector ? undefined : store.revoke(selector, options),
  }));
}
