import {
  clockSkewMs,
  leaseAllowance,
  leaseMs,
  SluiceError,
  type Claim,
  type GrantTerms,
  type GrantUse,
} from "@sluice/core";
import type { GrantSelector, StateStore, StateStoreLimits } from "../contract/state-store.ts";
import { storeCase, storeChecks, type StoreCase } from "./store-case.ts";

/** Makes a new, empty store with these bounds. */
export type MakeStateStore = (limits: StateStoreLimits) => StateStore | Promise<StateStore>;

/** One rule that every state store keeps, with the check that shows it. */
export type StateStoreCase = StoreCase<StateStore, [limits: StateStoreLimits]>;

const { equal, rejects } = storeChecks("state store");

function rule(
  id: string,
  sentence: string,
  check: (store: StateStore) => Promise<void>,
  limits: StateStoreLimits = {},
): StateStoreCase {
  return storeCase<StateStore, [limits: StateStoreLimits]>(id, sentence, check, limits);
}

/** The rules of {@link StateStore}, to be run by any test runner or none. */
export const stateStoreCases: readonly StateStoreCase[] = [
  rule("says-shared", "A store says whether other processes see what is in it.", async (store) => {
    equal(typeof store.shared, "boolean", "the type of shared");
  }),
  rule("claim-window", "A window grant is redeemed any number of times.", async (store) => {
    const grant = terms("window");
    for (let n = 0; n < 50; n++) granted(await store.claim(grant, start + n), false);
  }),
  rule(
    "claim-once",
    "A once grant is redeemed once, also by simultaneous claims.",
    async (store) => {
      const claims = await Promise.all(
        Array.from({ length: 50 }, () => store.claim(terms("once"), start)),
      );
      equal(claims.filter((claim) => claim.outcome === "granted").length, 1, "claims granted");
      outcome(await store.claim(terms("once"), start + 1), "spent");
      granted(await store.claim(terms("once", { id: "other" }), start + 1), false);
    },
  ),
  rule(
    "claim-until-end",
    "A spent grant stays spent until it is over, clock skew included.",
    async (store) => {
      const grant = terms("once");
      granted(await store.claim(grant, start), false);
      outcome(await store.claim(grant, grant.expiresAt + clockSkewMs - 1), "spent");
    },
  ),
  rule(
    "claim-expired",
    "A grant is not redeemed once its time and the clock skew are over.",
    async (store) => {
      for (const use of ["window", "once", "lease"] as const) {
        const late = terms(use, { id: use });
        outcome(await store.claim(late, late.expiresAt + clockSkewMs), "expired");
        const last = terms(use, { id: `${use} in time` });
        granted(await store.claim(last, last.expiresAt + clockSkewMs - 1), false);
      }
    },
  ),
  rule(
    "lease-bytes",
    "A lease goes on for as many bytes as it allows, also by simultaneous claims, and a small response counts for 512.",
    async (store) => {
      const grant = terms("lease");
      const size = 1_000_000;
      const claim = (count: number) => store.claim(grant, start + 1, { bytes: count, size });
      granted(await store.claim(grant, start, { bytes: 100_000, size }), false);
      const most = Math.floor(leaseAllowance(size) / 100_000);
      const claims = await Promise.all(Array.from({ length: most + 5 }, () => claim(100_000)));
      const more = claims.filter((one) => one.outcome === "granted" && one.continued);
      equal(more.length, most - 1, "responses within the lease");
      outcome(await claim(100_000), "spent");
      const left = leaseAllowance(size) - most * 100_000;
      granted(await claim(left - 1_023), true);
      granted(await claim(1), true);
      outcome(await claim(0), "spent");
    },
  ),
  rule(
    "claim-look",
    "Asked for as a window grant, one is looked at: nothing is used up, and what is spent is spent.",
    async (store) => {
      const [once, lease] = [terms("once", { id: "once" }), terms("lease", { id: "lease" })];
      const whole = { bytes: 300_000, size: 300_000 };
      for (const grant of [once, lease]) {
        granted(await store.claim({ ...grant, use: "window" }, start, whole), false);
        granted(await store.claim(grant, start, whole), false);
      }
      outcome(await store.claim({ ...once, use: "window" }, start + 1), "spent");
      const looks = 10;
      for (let n = 0; n < looks; n++)
        granted(await store.claim({ ...lease, use: "window" }, start + 1, whole), true);
      const rest = leaseAllowance(whole.size) - whole.bytes;
      granted(await store.claim(lease, start + 1, { ...whole, bytes: rest }), true);
      const look = { ...whole, bytes: 0 };
      outcome(await store.claim({ ...lease, use: "window" }, start + 3, look), "spent");
    },
  ),
  rule(
    "lease-ends",
    "A lease ends a fixed time after the request that opened it.",
    async (store) => {
      const grant = terms("lease");
      granted(await store.claim(grant, start), false);
      granted(await store.claim(grant, start + leaseMs - 1), true);
      outcome(await store.claim(grant, start + leaseMs), "spent");
    },
  ),
  rule(
    "refund-lease",
    "Bytes that are given back to a lease are there to be claimed again, and no more of them.",
    async (store) => {
      const grant = terms("lease");
      const size = 1_000_000;
      const all = { bytes: leaseAllowance(size), size };
      granted(await store.claim(grant, start, all), false);
      outcome(await store.claim(grant, start + 1, { bytes: 1_000, size }), "spent");
      await store.refund(grant.id, 1_000, start + 2);
      granted(await store.claim(grant, start + 3, { bytes: 1_000, size }), true);
      outcome(await store.claim(grant, start + 4, { bytes: 1, size }), "spent");
    },
  ),
  rule(
    "refund-others",
    "Giving back leaves other grants, those that are spent and unknown ids alone.",
    async (store) => {
      const [once, lease] = [terms("once", { id: "once" }), terms("lease", { id: "lease" })];
      const size = 1_000_000;
      const all = { bytes: leaseAllowance(size), size };
      granted(await store.claim(once, start), false);
      granted(await store.claim(lease, start, all), false);
      await store.refund(once.id, 1_000, start + 1);
      await store.refund("unknown", 1_000, start + 1);
      outcome(await store.claim(once, start + 2), "spent");
      outcome(await store.claim(lease, start + 2, { bytes: 1, size }), "spent");
      granted(await store.claim(terms("lease", { id: "unknown" }), start + 2), false);
    },
  ),
  ...(["id", "principal", "resource"] as const).map((kind) =>
    rule(
      `revoke-${kind}`,
      `Revoking by ${kind} withdraws what was issued so far, redeemed or not, and nothing else.`,
      async (store) => {
        const fresh = terms("window", { id: "fresh" });
        const leased = terms("lease", { id: kind === "id" ? "fresh" : "leased" });
        const other = terms("window", { id: "other", principal: "bob", resource: "b.bin" });
        granted(await store.claim(leased, start), false);
        await store.revoke({ [kind]: fresh[kind] } as unknown as GrantSelector, {
          now: start + 10,
          ttlMs,
        });
        outcome(await store.claim(fresh, start + 11), "revoked");
        outcome(await store.claim(leased, start + 11), "revoked");
        granted(await store.claim(other, start + 11), false);
      },
    ),
  ),
  rule("revoke-exact", "A selector meets its own field only.", async (store) => {
    for (const selector of [{ id: "alice" }, { principal: "a.bin" }, { resource: "grant" }])
      await store.revoke(selector, { now: start + 10, ttlMs });
    granted(await store.claim(terms("window"), start + 11), false);
  }),
  rule("revoke-later", "Grants issued after a revocation are good.", async (store) => {
    await store.revoke({ principal: "alice" }, { now: start, ttlMs });
    outcome(await store.claim(terms("once", { id: "same time" }), start + 1), "revoked");
    const later = terms("once", { id: "later", issuedAt: start + 1_000 });
    granted(await store.claim(later, start + 1_001), false);
  }),
  rule(
    "revoke-lasts",
    "A revocation holds for its whole ttlMs, and an older one never takes its place.",
    async (store) => {
      await store.revoke({ resource: "a.bin" }, { now: start + 1_000, ttlMs });
      await store.revoke({ resource: "a.bin" }, { now: start - 1_000, ttlMs });
      const grant = terms("window", { issuedAt: start + 1_000, expiresAt: start + 1_000 + ttlMs });
      outcome(await store.claim(grant, start + 1_001), "revoked");
      outcome(await store.claim(grant, start + 999 + ttlMs), "revoked");
    },
  ),
  rule(
    "put-get",
    "A record comes back byte for byte, as often as wanted, as a copy.",
    async (store) => {
      const record = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      await store.put("a", record, { now: start, expiresAt: start + 1_000, owner });
      await store.put("empty", new Uint8Array(0), { now: start, expiresAt: start + 1_000, owner });
      record.fill(0);
      const first = await store.get("a", start + 1);
      equal(
        String(first?.join()),
        Array.from({ length: 256 }, (_, byte) => byte).join(),
        "the record",
      );
      first?.fill(0);
      equal((await store.get("a", start + 2))?.[255], 255, "the last byte of a second reading");
      equal((await store.get("empty", start + 1))?.length, 0, "the length of an empty record");
      equal(await store.get("b", start + 1), undefined, "a record that was never put");
    },
  ),
  rule("put-exists", "A record that is kept is not replaced.", async (store) => {
    await store.put("a", bytes(1), { now: start, expiresAt: start + 1_000, owner });
    await rejects(
      () => store.put("a", bytes(2), { now: start + 1, expiresAt: start + 2_000, owner }),
      "already_exists",
    );
    equal((await store.get("a", start + 2))?.[0], 1, "the record");
  }),
  rule("put-expires", "A record is gone at its end, and its id is free again.", async (store) => {
    for (const id of ["a", "b"])
      await store.put(id, bytes(1), { now: start, expiresAt: start + 1_000, owner });
    equal((await store.get("a", start + 999))?.[0], 1, "the record before its end");
    equal(await store.get("a", start + 1_000), undefined, "the record at its end");
    equal(await store.take("a", start + 1_000), undefined, "the record taken at its end");
    for (const id of ["a", "b"]) {
      await store.put(id, bytes(2), { now: start + 1_000, expiresAt: start + 2_000, owner });
      equal((await store.get(id, start + 1_001))?.[0], 2, "the new record");
    }
  }),
  rule(
    "take-once",
    "Of any number of simultaneous takers exactly one gets the record.",
    async (store) => {
      await store.put("a", bytes(7), { now: start, expiresAt: start + 1_000, owner });
      const taken = await Promise.all(Array.from({ length: 50 }, () => store.take("a", start + 1)));
      const got = taken.filter((record) => record !== undefined);
      equal(got.length, 1, "takers that got it");
      equal(got[0]?.[0], 7, "the record");
      equal(await store.get("a", start + 2), undefined, "the record after it was taken");
    },
  ),
  rule("kinds-apart", "Grants and records with the same id do not meet.", async (store) => {
    const grant = terms("once");
    await store.put(grant.id, bytes(1), { now: start, expiresAt: start + 1_000, owner });
    granted(await store.claim(grant, start), false);
    equal((await store.take(grant.id, start + 1))?.[0], 1, "the record");
    outcome(await store.claim(grant, start + 2), "spent");
  }),
  rule(
    "share-bound",
    "An owner with as many live records as one may have is throttled, with a time to come back; others are not.",
    async (store) => {
      for (const id of ["a", "b", "c"]) await store.put(id, bytes(1), until(1_000));
      const refusal: unknown = await store
        .put("d", bytes(1), until(1_000))
        .catch((error: unknown) => error);
      equal(SluiceError.is(refusal) && refusal.code, "throttled", "the fourth record");
      equal((refusal as SluiceError).retryAfterMs! > 0, true, "a retryAfterMs");
      for (const other of ["bob", ""])
        await store.put(`of ${other}`, bytes(2), { ...until(1_000), owner: other });
      equal((await store.get("c", start + 1))?.[0], 1, "the last record of the full share");
      equal(await store.get("d", start + 1), undefined, "the record that was refused");
    },
    { maxRecordsPerOwner: 3 },
  ),
  rule(
    "share-together",
    "Simultaneous records of one owner keep to its share.",
    async (store) => {
      const kept = await Promise.allSettled(
        Array.from({ length: 20 }, (_, n) => store.put(`r${n}`, bytes(1), until(1_000))),
      );
      equal(kept.filter(({ status }) => status === "fulfilled").length, 3, "records kept");
    },
    { maxRecordsPerOwner: 3 },
  ),
  rule(
    "share-lapses",
    "What was taken or is over counts no longer.",
    async (store) => {
      for (const [id, lifeMs] of [["a", 1_000] as const, ["b", 2_000] as const])
        await store.put(id, bytes(1), until(lifeMs));
      await rejects(() => store.put("c", bytes(1), until(9_000)), "throttled");
      await store.take("b", start + 1);
      await store.put("c", bytes(1), until(9_000));
      await rejects(() => store.put("d", bytes(1), until(9_000)), "throttled");
      await store.put("d", bytes(1), { ...until(9_000), now: start + 1_000 });
      await rejects(
        () => store.put("e", bytes(1), { ...until(9_000), now: start + 2_500 }),
        "throttled",
      );
    },
    { maxRecordsPerOwner: 2 },
  ),
  rule(
    "session-ends",
    "The end of a session that something is bound to is known, until it is over, and binding revives nothing.",
    async (store) => {
      await store.bindSession("s", until(1_000));
      await store.bindSession("other", until(1_000));
      equal(await store.isSessionOver("s", start + 1), false, "the session before its end");
      await store.endSession("s", start + 2);
      equal(await store.isSessionOver("s", start + 3), true, "the session after its end");
      await store.bindSession("s", { ...until(3_000), now: start + 4 });
      equal(await store.isSessionOver("s", start + 2_999), true, "the session bound again");
      equal(await store.isSessionOver("other", start + 3), false, "another session");
    },
  ),
  rule(
    "session-unbound",
    "Of a session that nothing is bound to no end is kept.",
    async (store) => {
      await store.endSession("invented", start);
      equal(await store.isSessionOver("invented", start + 1), false, "the invented session");
      await store.bindSession("invented", { ...until(1_000), now: start + 2 });
      equal(await store.isSessionOver("invented", start + 3), false, "the session bound later");
    },
  ),
  rule(
    "session-lapses",
    "A session is forgotten when what was bound to it is over, and not before, whatever was bound later.",
    async (store) => {
      await store.bindSession("s", until(2_000));
      await store.bindSession("s", until(1_000));
      await store.endSession("s", start + 1);
      equal(await store.isSessionOver("s", start + 1_999), true, "the session before its end");
      equal(await store.isSessionOver("s", start + 2_000), false, "the session at its end");
      await store.bindSession("s", { ...until(5_000), now: start + 2_001 });
      equal(await store.isSessionOver("s", start + 2_002), false, "the session anew");
    },
  ),
  rule(
    "session-share",
    "A session beyond its owner's share costs that owner its oldest, and no other owner anything.",
    async (store) => {
      await store.bindSession("ann", until(1_000));
      await store.endSession("ann", start + 1);
      for (const n of [1, 2, 3]) {
        await store.bindSession(`bob ${n}`, { ...until(1_000 + n), owner: "bob" });
        await store.endSession(`bob ${n}`, start + 1);
      }
      const over = await Promise.all(
        ["ann", "bob 1", "bob 2", "bob 3"].map((one) => store.isSessionOver(one, start + 2)),
      );
      equal(over.join(), "true,false,true,true", "the sessions that are known to be over");
      for (const n of [1, 2]) await store.put(`r${n}`, bytes(1), { ...until(1_000), owner: "bob" });
      await store.bindSession("bob 4", { ...until(1_000), owner: "bob" });
      equal((await store.get("r1", start + 2))?.[0], 1, "a record beside sessions");
    },
    { maxRecordsPerOwner: 2 },
  ),
  rule("close-twice", "Closing twice is closing once.", async (store) => {
    await store.close?.();
    await store.close?.();
  }),
];

const start = 1_800_000_000_000;
const ttlMs = 3_600_000;
const owner = "ann";

function until(lifeMs: number): { now: number; expiresAt: number; owner: string } {
  return { now: start, expiresAt: start + lifeMs, owner };
}

function terms(use: GrantUse, other: Partial<GrantTerms> = {}): GrantTerms {
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

function granted(claim: Claim, continued: boolean): void {
  outcome(claim, "granted");
  if (claim.outcome === "granted") equal(claim.continued, continued, "continued");
}

function outcome(claim: Claim, expected: Claim["outcome"]): void {
  equal(claim.outcome, expected, "the outcome of a claim");
}

function bytes(...values: readonly number[]): Uint8Array {
  return Uint8Array.from(values);
}
