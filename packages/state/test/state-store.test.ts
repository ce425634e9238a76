import type { GrantUse } from "@sluice/core";
import type { GrantTerms } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { stateStoreCases } from "@sluice/state/conformance";
import { afterEach, describe, expect, test, vi } from "vitest";
import { brokenStateStores } from "./broken-state-stores.ts";

const now = 1_800_000_000_000;
const ttlMs = 60_000;
const owner = "ann";

function terms(id: string, use: GrantUse = "once"): GrantTerms {
  return { id, principal: "alice", resource: "a.bin", use, issuedAt: now, expiresAt: now + ttlMs };
}

describe("the rules of a state store", () => {
  test.each(stateStoreCases)("$id: $sentence", async ({ run }) => {
    await expect(run(createMemoryStateStore)).resolves.toBeUndefined();
  });

  test("every rule has its own broken store", () => {
    const ids = stateStoreCases.map(({ id }) => id);
    expect(Object.keys(brokenStateStores).toSorted()).toEqual(ids.toSorted());
  });

  test.each(Object.entries(brokenStateStores))(
    "the store that breaks %s is caught by it, and by little else",
    async (broken, make) => {
      const caught: string[] = [];
      for (const { id, run } of stateStoreCases)
        await run(make).catch((error: Error) => caught.push(`${id} ${error.message.slice(0, 12)}`));
      expect(caught).toContain(`${broken} state store:`);
      expect(caught.length).toBeLessThanOrEqual(3);
    },
  );

  test("a store is closed also after a rule it broke", async () => {
    const close = vi.fn<() => Promise<void>>().mockResolvedValue();
    const broken = { ...brokenStateStores["refund-lease"]!({}), close };
    const rule = stateStoreCases.find(({ id }) => id === "refund-lease")!;
    await expect(rule.run(() => broken)).rejects.toThrow("state store");
    expect(close).toHaveBeenCalledTimes(1);
  });
});

describe("a store in memory", () => {
  afterEach(() => vi.restoreAllMocks());

  test("a full store refuses new grants and keeps the live ones", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 10, perPrincipal: 10 } });
    for (let n = 0; n < 10; n++) await store.claim(terms(`g${n}`), now);
    await expect(store.claim(terms("g10"), now)).rejects.toMatchObject({
      name: "SluiceError",
      code: "unavailable",
      retryable: true,
    });
    for (let n = 0; n < 10; n++)
      expect(await store.claim(terms(`g${n}`), now)).toEqual({ outcome: "spent" });
    await expect(store.claim(terms("g10"), now + ttlMs)).rejects.toMatchObject({
      code: "unavailable",
    });
  });

  test("a full store has room again once an entry expires", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 10, perPrincipal: 10 } });
    for (let n = 0; n < 10; n++) await store.claim(terms(`g${n}`), now);
    const later = now + ttlMs + 60_000;
    for (let n = 10; n < 20; n++) {
      const fresh = { ...terms(`g${n}`), issuedAt: later, expiresAt: later + ttlMs };
      expect(await store.claim(fresh, later)).toMatchObject({ outcome: "granted" });
    }
  });

  test("making room drops only expired entries", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 3, perPrincipal: 3 } });
    for (const [n, id] of ["a", "b", "c"].entries())
      await store.put(id, new Uint8Array(1), { now, expiresAt: now + 1_000 * (n + 1), owner });
    const later = { now: now + 1_000, expiresAt: now + 9_000, owner };
    await store.put("d", new Uint8Array(1), later);
    await expect(store.put("e", new Uint8Array(1), later)).rejects.toMatchObject({
      code: "unavailable",
    });
    for (const id of ["b", "c", "d"]) expect(await store.get(id, now + 1_000)).toBeDefined();
  });

  test("a full store is searched for room once a second at most", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 2, perPrincipal: 2 } });
    const put = (id: string, at: number, expiresAt: number) =>
      store.put(id, new Uint8Array(1), { now: at, expiresAt, owner });
    await put("a", now, now + 1_000);
    await put("b", now, now + 1_500);
    await put("c", now + 1_000, now + 9_000);
    await expect(put("d", now + 1_900, now + 9_000)).rejects.toMatchObject({ code: "unavailable" });
    await put("d", now + 2_000, now + 9_000);
    expect(await store.get("c", now + 2_000)).toBeDefined();
  });

  test("a full store refuses new records and revocations, even while others are replaced", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 1, perPrincipal: 1 } });
    const times = { now, expiresAt: now + 1_000, owner };
    await store.put("a", new Uint8Array(1), times);
    await expect(store.put("b", new Uint8Array(1), times)).rejects.toMatchObject({
      code: "unavailable",
    });
    await store.take("a", now);
    await store.put("b", new Uint8Array(1), times);
    await store.revoke({ principal: "alice" }, { now, ttlMs });
    await store.revoke({ principal: "alice" }, { now: now + 1, ttlMs });
    const other = store.revoke({ principal: "bob" }, { now, ttlMs });
    await expect(other).rejects.toMatchObject({ code: "unavailable" });
  });

  test("grants do not take the room of records or revocations", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 1, perPrincipal: 1 } });
    await store.claim(terms("a"), now);
    await store.put("a", new Uint8Array(1), { now, expiresAt: now + 1, owner });
    await store.revoke({ resource: "a.bin" }, { now, ttlMs });
    expect(await store.claim(terms("a"), now)).toEqual({ outcome: "revoked" });
  });

  test("one owner has a tenth of the room at most, and the others have the rest", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 100 } });
    const put = (id: string, by: string) =>
      store.put(id, new Uint8Array(1), { now, expiresAt: now + 60_000, owner: by });
    for (let n = 0; n < 10; n++) await put(`r${n}`, "mallory");
    await expect(put("r10", "mallory")).rejects.toMatchObject({
      code: "throttled",
      retryAfterMs: 60_000,
    });
    for (let n = 0; n < 90; n++) await put(`of ${n}`, `user ${n}`);
    await expect(put("last", "another")).rejects.toMatchObject({ code: "unavailable" });
  });

  test("redeemed grants count in the share of their principal", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 20 } });
    for (const id of ["a", "b"]) await store.claim(terms(id), now);
    await expect(store.claim(terms("c"), now)).rejects.toMatchObject({ code: "throttled" });
    await store.refund("a", 1, now);
    const other = { ...terms("d"), principal: "bob" };
    expect(await store.claim(other, now)).toMatchObject({ outcome: "granted" });
    expect(await store.claim(terms("a"), now)).toEqual({ outcome: "spent" });
  });

  test("sessions of many owners that fill the store are kept, and new ones wait", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 10, perPrincipal: 5 } });
    const bind = (n: number, at = now) =>
      store.bindSession(`s${n}`, { now: at, expiresAt: at + 60_000, owner: `user ${n}` });
    for (let n = 0; n < 10; n++) await bind(n);
    await expect(bind(10)).rejects.toMatchObject({ code: "unavailable" });
    await store.endSession("s0", now);
    expect(await store.isSessionOver("s0", now + 1)).toBe(true);
    await bind(10, now + 60_000);
  });

  test("window grants take no room", async () => {
    const store = createMemoryStateStore({ records: { perProcess: 1, perPrincipal: 1 } });
    for (let n = 0; n < 100; n++)
      expect(await store.claim(terms(`g${n}`, "window"), now)).toMatchObject({
        outcome: "granted",
      });
  });

  test("rejects an invalid bound", () => {
    for (const perProcess of [0, -1, 1.5, Number.NaN, Infinity])
      expect(() => createMemoryStateStore({ records: { perProcess } })).toThrow(RangeError);
  });

  test("an empty selector value revokes nothing", async () => {
    const store = createMemoryStateStore();
    for (const selector of [{ principal: "" }, { id: "" }, {} as { id: string }])
      await expect(store.revoke(selector, { now, ttlMs })).rejects.toThrow(TypeError);
  });

  test("a cluster worker gets no own store", () => {
    vi.spyOn(process, "getBuiltinModule").mockReturnValue({ isWorker: true });
    expect(() => createMemoryStateStore()).toThrow(
      /not shared between cluster workers; pass `stores: createRedisStores.*fork mode/,
    );
  });
});
