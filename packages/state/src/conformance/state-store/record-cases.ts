import { SluiceError } from "@sluice/core";
import { bytes, kit, start, until, type StateStoreCase } from "./state-store-bed.ts";

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
