import { bytes, kit, start, until, type StateStoreCase } from "./state-store-bed.ts";

const { equal, rule } = kit;

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
