import {
  file,
  kit,
  later,
  leaseMs,
  permits,
  start,
  type UploadStoreCase,
} from "./upload-store-bed.ts";

const { equal, rule } = kit;

/** Uploads in progress and kept files of an owner. */
export const accountCases: readonly UploadStoreCase[] = [
  rule(
    "permits-bound",
    "Of any number of requests at once as many get a permit as there are.",
    async (store) => {
      const entered = await Promise.all(
        Array.from({ length: 30 }, (_, n) => store.enter("alice", `permit ${n}`, permits(4))),
      );
      equal(entered.filter(Boolean).length, 4, "the number that got a permit");
      equal(await store.enter("alice", "late", permits(4)), false, "a fifth permit");
    },
  ),
  rule("permits-back", "A permit that is given back can be taken, and no other.", async (store) => {
    await store.enter("alice", "a", permits(1));
    await store.leave("alice", "unknown");
    equal(await store.enter("alice", "b", permits(1)), false, "a permit that was not given back");
    await store.leave("alice", "a");
    await store.leave("alice", "a");
    equal(await store.enter("alice", "b", permits(1)), true, "a permit that was");
    equal(await store.enter("alice", "c", permits(1)), false, "a second one");
  }),
  rule(
    "permits-lapse",
    "A permit that is not prolonged is free when it expires.",
    async (store) => {
      await store.enter("alice", "a", permits(2));
      await store.enter("alice", "b", permits(2));
      equal(
        await store.enter("alice", "a", permits(2, later(leaseMs - 1))),
        true,
        "prolonging a permit",
      );
      equal(
        await store.enter("alice", "c", permits(2, later(leaseMs - 1))),
        false,
        "a permit too soon",
      );
      equal(await store.enter("alice", "c", permits(2, later(leaseMs))), true, "a permit in time");
      equal(
        await store.enter("alice", "d", permits(2, later(leaseMs))),
        false,
        "a prolonged permit",
      );
    },
  ),
  rule("owners-apart", "Each owner has its own permits and files.", async (store) => {
    await store.enter("alice", "a", permits(1));
    equal(await store.enter("bob", "a", permits(1)), true, "the other's permit");
    await store.leave("bob", "a");
    equal(
      await store.enter("alice", "b", permits(1)),
      false,
      "a permit after the other's was left",
    );
    equal(await store.hold("alice", "1", file(100)), true, "a file");
    equal(await store.hold("bob", "1", file(100)), true, "the other's file");
    await store.drop("bob", "1");
    await store.seed("bob", [], { ...later(0), listedAt: start });
    equal(await store.hold("alice", "2", file(1)), false, "a file beyond the bound");
  }),
  rule(
    "files-bound",
    "Of any number of files at once as many are held as there may be, and of the others nothing.",
    async (store) => {
      const holds = await Promise.all(
        Array.from({ length: 20 }, (_, n) => store.hold("alice", `f${n}`, file(1))),
      );
      equal(holds.filter(Boolean).length, 5, "files held");
      equal(await store.hold("alice", "late", file(0)), false, "a sixth file");
      await store.drop("alice", `f${holds.indexOf(true)}`);
      await store.drop("alice", `f${holds.indexOf(false)}`);
      equal(await store.hold("alice", "a", file(96)), true, "all the bytes that are left");
    },
  ),
  rule(
    "bytes-bound",
    "Of any number of files at once no more is held than there is room for.",
    async (store) => {
      const holds = await Promise.all(
        Array.from({ length: 10 }, (_, n) => store.hold("alice", `f${n}`, file(30))),
      );
      equal(holds.filter(Boolean).length, 3, "files held");
      equal(await store.hold("alice", "late", file(11)), false, "a byte too many");
      equal(await store.hold("alice", "late", file(10)), true, "the last bytes");
    },
  ),
  rule("hold-anew", "A file that is held anew counts once, with its new bytes.", async (store) => {
    await store.hold("alice", "1", file(60));
    equal(await store.hold("alice", "1", file(101)), false, "more than there is room for");
    equal(
      await store.hold("alice", "2", file(41)),
      false,
      "the bytes that the refused one would allow",
    );
    equal(await store.hold("alice", "1", file(90)), true, "more");
    equal(await store.hold("alice", "2", file(11)), false, "more than is left beside it");
    equal(await store.hold("alice", "1", file(10)), true, "less");
    equal(await store.hold("alice", "2", file(90)), true, "the rest");
  }),
  rule(
    "hold-again",
    "A file that counts already may be held with as many bytes even beyond the bounds.",
    async (store) => {
      await store.settle("alice", "1", { ...later(0), bytes: 300 });
      const narrow = { maxFiles: 1, maxBytes: 100 };
      equal(await store.hold("alice", "1", { ...file(300), ...narrow }), true, "as many bytes");
      equal(await store.hold("alice", "1", { ...file(301), ...narrow }), false, "a byte more");
      const soon = { ...file(300), ...narrow, ...later(leaseMs - 1) };
      equal(await store.hold("alice", "1", soon), true, "prolonging");
      const then = later(leaseMs + 1);
      equal(await store.hold("alice", "2", { ...file(1), ...then }), false, "a file beside it");
    },
  ),
  rule("hold-lapses", "A held file no longer counts once it expires.", async (store) => {
    await store.hold("alice", "1", file(100));
    const almost = { ...file(1), ...later(leaseMs - 1) };
    equal(await store.hold("alice", "2", almost), false, "a file too soon");
    equal(await store.hold("alice", "2", { ...file(100), ...later(leaseMs) }), true, "in time");
  }),
  rule(
    "settle-counts",
    "A settled file counts until it expires, once, even beyond the bounds.",
    async (store) => {
      await store.hold("alice", "1", file(100));
      await store.settle("alice", "1", { now: start, until: start + 9 * leaseMs, bytes: 40 });
      const then = later(2 * leaseMs);
      equal(await store.hold("alice", "2", { ...file(61), ...then }), false, "too many bytes");
      equal(await store.hold("alice", "2", { ...file(60), ...then }), true, "the rest");
      await store.settle("alice", "3", { ...then, bytes: 500 });
      equal(await store.hold("alice", "4", { ...file(0), ...then }), false, "a full account");
      const end = later(9 * leaseMs);
      equal(await store.hold("alice", "5", { ...file(100), ...end }), true, "after their time");
    },
  ),
  rule("drop-forgets", "A file that was dropped counts no longer.", async (store) => {
    await store.hold("alice", "1", file(50));
    await store.settle("alice", "2", { ...later(0), bytes: 50 });
    await store.drop("alice", "unknown");
    equal(await store.hold("alice", "3", file(1)), false, "a file before");
    for (const fileId of ["1", "2", "2"]) await store.drop("alice", fileId);
    equal(await store.hold("alice", "3", file(100)), true, "a file after");
  }),
  rule(
    "seed-counts",
    "Listed files count, in place of those that were listed and settled before.",
    async (store) => {
      await store.settle("alice", "gone", { ...later(0), bytes: 70 });
      await store.settle("alice", "kept", { ...later(0), bytes: 10 });
      const files = [
        { fileId: "kept", bytes: 20 },
        { fileId: "found", bytes: 30 },
      ];
      await store.seed("alice", files, { ...later(2), listedAt: start + 1 });
      equal(await store.hold("alice", "1", file(51)), false, "more than is left");
      equal(await store.hold("alice", "1", file(50)), true, "the bytes that are left");
      await store.drop("alice", "1");
      await store.seed("alice", [], { ...later(4), listedAt: start + 3 });
      equal(await store.hold("alice", "1", file(100)), true, "everything");
    },
  ),
  rule(
    "seed-spares",
    "Files that are held, or were settled since storage was listed, stay as they are.",
    async (store) => {
      await store.hold("alice", "held", file(10));
      await store.settle("alice", "same", { ...later(5), bytes: 10 });
      await store.settle("alice", "since", { ...later(6), bytes: 10 });
      const files = ["held", "same", "since"].map((fileId) => ({ fileId, bytes: 1 }));
      for (const seen of [[], files])
        await store.seed("alice", seen, { ...later(7), listedAt: start + 5 });
      equal(await store.hold("alice", "1", file(71)), false, "more than is left");
      equal(await store.hold("alice", "1", file(70)), true, "the bytes that are left");
    },
  ),
  rule("seed-lapses", "Listed files count until they expire.", async (store) => {
    await store.seed("alice", [{ fileId: "1", bytes: 100 }], { ...later(0), listedAt: start });
    const almost = { ...file(1), ...later(leaseMs - 1) };
    equal(await store.hold("alice", "2", almost), false, "a file too soon");
    equal(await store.hold("alice", "2", { ...file(100), ...later(leaseMs) }), true, "in time");
  }),
];
