import {
  claimGrant,
  createMemoryStateStore,
  settleGrant,
  SluiceError,
  type Claim,
  type GrantRecord,
  type GrantTerms,
  type StateStore,
} from "@sluice/core";

/** For every rule of the state store, a store that breaks it. */
export const brokenStateStores: Readonly<Record<string, () => StateStore>> = {
  "says-shared": () => changed(() => ({ shared: undefined as unknown as boolean })),
  "claim-window": () =>
    claiming((terms) => ({ ...terms, use: terms.use === "window" ? "once" : terms.use })),
  "claim-once": checkThenSet,
  "claim-until-end": () => forgetting((terms, now) => now >= terms.expiresAt),
  "claim-expired": () => claiming((terms) => ({ ...terms, expiresAt: Infinity })),
  "claim-look": () =>
    claiming((terms) => (terms.use === "window" ? { ...terms, id: `of ${terms.id}` } : terms)),
  "lease-continues": () => keeping((record) => ({ ...record, requestsLeft: 19 })),
  "lease-ends": () => keeping((record) => ({ ...record, leaseEndsAt: Infinity })),
  "settle-lease": () => changed(() => ({ async settle() {} })),
  "settle-others": () =>
    changed((store) => ({
      settle: (_id, now) => store.revoke({ resource: "a.bin" }, { now, ttlMs: 3_600_000 }),
    })),
  "revoke-id": () => revokingAllBut("id"),
  "revoke-principal": () => revokingAllBut("principal"),
  "revoke-resource": () => revokingAllBut("resource"),
  "revoke-exact": () =>
    changed((store) => ({
      async revoke(selector, options) {
        const [value = ""] = Object.values<string>(selector);
        for (const any of [{ id: value }, { principal: value }, { resource: value }])
          await store.revoke(any, options);
      },
    })),
  "revoke-later": () =>
    changed((store) => ({
      revoke: (selector, { ttlMs }) =>
        store.revoke(selector, { now: Number.MAX_SAFE_INTEGER, ttlMs }),
    })),
  "revoke-lasts": () =>
    changed((store) => ({
      revoke: (selector, { now }) => store.revoke(selector, { now, ttlMs: 0 }),
    })),
  "put-get": () => {
    const records = new Map<string, Uint8Array>();
    return changed((store) => ({
      async put(id, record, times) {
        await store.put(id, record, times);
        records.set(id, record);
      },
      get: async (id, now) => (await store.get(id, now)) && records.get(id),
    }));
  },
  "put-exists": () =>
    changed((store) => ({
      async put(id, record, times) {
        await store.take(id, times.now);
        await store.put(id, record, times);
      },
    })),
  "put-expires": () =>
    changed((store) => ({
      put: (id, record, { now }) => store.put(id, record, { now, expiresAt: Infinity }),
    })),
  "take-once": () =>
    changed((store) => ({
      async take(id, now) {
        const record = await store.get(id, now);
        await store.take(id, now);
        return record;
      },
    })),
  "kinds-apart": () => {
    const ids = new Set<string>();
    return changed((store) => ({
      async put(id, record, times) {
        ids.add(id);
        await store.put(id, record, times);
      },
      claim: async (terms, now) =>
        ids.has(terms.id) ? { outcome: "spent" } : store.claim(terms, now),
    }));
  },
  "close-twice": () => {
    let isOpen = true;
    return changed(() => ({
      async close() {
        if (!isOpen) throw new SluiceError("internal", "state store: closed already");
        isOpen = false;
      },
    }));
  },
};

function changed(change: (store: StateStore) => Partial<StateStore>): StateStore {
  const store = createMemoryStateStore();
  return { ...store, ...change(store) };
}

function claiming(change: (terms: GrantTerms) => GrantTerms): StateStore {
  return changed((store) => ({ claim: (terms, now) => store.claim(change(terms), now) }));
}

function forgetting(isOver: (terms: GrantTerms, now: number) => boolean): StateStore {
  return changed((store) => ({
    claim: (terms, now) =>
      (isOver(terms, now) ? createMemoryStateStore() : store).claim(terms, now),
  }));
}

/** Redeems leases by the book but keeps another record than it should. */
function keeping(change: (record: GrantRecord) => GrantRecord): StateStore {
  const records = new Map<string, GrantRecord | undefined>();
  return changed((store) => ({
    async claim(terms, now) {
      if (terms.use !== "lease") return store.claim(terms, now);
      const live = await store.claim({ ...terms, use: "window" }, now);
      if (live.outcome !== "granted") return live;
      const { record, claim } = claimGrant(records.get(terms.id), terms, now);
      records.set(terms.id, record?.state === "leased" ? change(record) : record);
      return claim;
    },
    settle: async (id) => void records.set(id, settleGrant(records.get(id))),
  }));
}

/** The usual mistake: look first, write later, with a pause in between. */
function checkThenSet(): StateStore {
  const spent = new Set<string>();
  return changed((store) => ({
    async claim(terms, now): Promise<Claim> {
      if (terms.use !== "once") return store.claim(terms, now);
      const isSpent = spent.has(terms.id);
      await Promise.resolve();
      spent.add(terms.id);
      return isSpent ? { outcome: "spent" } : store.claim({ ...terms, use: "window" }, now);
    },
  }));
}

function revokingAllBut(kind: string): StateStore {
  return changed((store) => ({
    revoke: async (selector, options) =>
      kind in selector ? undefined : store.revoke(selector, options),
  }));
}
