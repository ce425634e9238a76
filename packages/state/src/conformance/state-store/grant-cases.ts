import { clockSkewMs } from "@sluice/core/internal";
import { leaseAllowance, leaseMs } from "../../contract/grant.ts";
import type { GrantSelector } from "../../contract/state-store.ts";
import {
  bytes,
  granted,
  kit,
  outcome,
  start,
  terms,
  ttlMs,
  until,
  type StateStoreCase,
} from "./state-store-bed.ts";

const { equal, rule } = kit;

/** How often a grant is redeemed, and that a revocation ends it. */
export const grantCases: readonly StateStoreCase[] = [
  rule("says-shared", "A store says whether other processes see what is in it.", async (store) => {
    equal(typeof store.shared, "boolean", "the type of shared");
  }),
  rule("claim-window", "A window grant is redeemed any number of times.", async (store) => {
    const grant = terms("window");
    for (let n = 0; n < 50; n++) granted(await store.claim(grant, start + n), false);
  }),
  rule(
    "claim-once",
    "A once grant is redeemed once, even by simultaneous claims.",
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
    "A spent grant stays spent until it expires, clock skew included.",
    async (store) => {
      const grant = terms("once");
      granted(await store.claim(grant, start), false);
      outcome(await store.claim(grant, grant.expiresAt + clockSkewMs - 1), "spent");
    },
  ),
  rule(
    "claim-skewed",
    "A grant that a caller with a fast clock claimed is spent for callers with a slow one.",
    async (store) => {
      const grant = terms("once", { expiresAt: start + 660_000 });
      granted(await store.claim({ ...grant, use: "window" }, start), false);
      granted(await store.claim(grant, start + 600_000), false);
      for (const later of [-600_000, 1, 300_000, 659_999])
        outcome(await store.claim(grant, start + later), "spent");
    },
  ),
  rule(
    "claim-kept",
    "A spent grant stays spent, whatever is claimed, kept and revoked after it.",
    async (store) => {
      const first = terms("once", { id: "first", principal: "bob" });
      granted(await store.claim(first, start), false);
      for (let n = 0; n < 1_000; n++) await store.claim(terms("once", { id: `${n}` }), start + n);
      for (let n = 0; n < 1_000; n++)
        await store.put(`${n}`, bytes(1), { ...until(ttlMs), now: start + n });
      await store.revoke({ resource: "b.bin" }, { now: start + 1_000, ttlMs });
      outcome(await store.claim(first, start + 1_001), "spent");
      outcome(await store.claim(terms("once", { id: "0" }), start + 1_001), "spent");
    },
  ),
  rule(
    "claim-expired",
    "A grant is not redeemed once its time and the clock skew have passed.",
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
    "A lease lasts for as many bytes as it allows, even by simultaneous claims, and a small response counts for 512.",
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
    "Giving back changes no other grants, spent ones or unknown ids.",
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
  rule("kinds-apart", "Grants and records with the same id do not meet.", async (store) => {
    const grant = terms("once");
    await store.put(grant.id, bytes(1), until(1_000));
    granted(await store.claim(grant, start), false);
    equal((await store.take(grant.id, start + 1))?.[0], 1, "the record");
    outcome(await store.claim(grant, start + 2), "spent");
  }),
];
