import { SluiceError } from "@sluice/core";
import { bytes, kit, start, type StateStoreCase, until } from "./state-store-bed.ts";

const { equal, rejects, rule } = kit;

/** Opaque records, and how many of them one owner may have. */
export const recordCases: readonly StateStoreCase[] = [
  rule(
    "put-get",
    "A record comes back byte for byte, as often as wanted, as a copy.",
    async (store) => {
      const record = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      await store.put("a", record, until(1_000));
      await store.put("empty", new Uint8Array(0), until(1_000));
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
    await store.put("a", bytes(1), until(1_000));
    await rejects(
      () => store.put("a", bytes(2), { ...until(2_000), now: start + 1 }),
      "already_exists",
    );
    equal((await store.get("a", start + 2))?.[0], 1, "the record");
  }),
  rule("put-expires", "A record is gone at its end, and its id is free again.", async (store) => {
    for (const id of ["a", "b"]) await store.put(id, bytes(1), until(1_000));
    equal((await store.get("a", start + 999))?.[0], 1, "the record before its end");
    equal(await store.get("a", start + 1_000), undefined, "the record at its end");
    equal(await store.take("a", start + 1_000), undefined, "the record taken at its end");
    for (const id of ["a", "b"]) {
      await store.put(id, bytes(2), { ...until(2_000), now: start + 1_000 });
      equal((await store.get(id, start + 1_001))?.[0], 2, "the new record");
    }
  }),
  rule(
    "take-once",
    "Of any number of simultaneous takers exactly one gets the record.",
    async (store) => {
      await store.put("a", bytes(7), until(1_000));
      const records = await Promise.all(
        Array.from({ length: 50 }, () => store.take("a", start + 1)),
      );
      const got = records.filter((record) => record !== undefined);
      equal(got.length, 1, "takers that got it");
      equal(got[0]?.[0], 7, "the record");
      equal(await store.get("a", start + 2), undefined, "the record after it was taken");
    },
  ),
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
    { records: { perPrincipal: 3 } },
  ),
  rule(
    "share-together",
    "Simultaneous records of one owner keep to its share.",
    async (store) => {
      const puts = await Promise.allSettled(
        Array.from({ length: 20 }, (_, n) => store.put(`r${n}`, bytes(1), until(1_000))),
      );
      equal(puts.filter(({ status }) => status === "fulfilled").length, 3, "records kept");
    },
    { records: { perPrincipal: 3 } },
  ),
  rule(
    "share-lapses",
    "Taken and expired records no longer count.",
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
    { records: { perPrincipal: 2 } },
  ),
];

/** The ends of sessions. */
export const sessionCases: readonly StateStoreCase[] = [
  rule(
    "session-ends",
    "The end of a session that something is bound to is known until that expires, and binding revives nothing.",
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
    "A session is forgotten when the grants bound to it expire, and not before, whatever was bound later.",
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
    { records: { perPrincipal: 2 } },
  ),
];
