import { storeCase, storeChecks, type StoreCase } from "./store-case.ts";
import type { HeldFile, UploadLease, UploadStore } from "../contract/upload-store.ts";

/** One rule that every upload store keeps, with the check that shows it. */
export type UploadStoreCase = StoreCase<UploadStore>;

const { equal } = storeChecks("upload store");
const rule = storeCase<UploadStore>;

/** The rules of {@link UploadStore}, to be run by any test runner or none. */
export const uploadStoreCases: readonly UploadStoreCase[] = [
  rule(
    "places-bound",
    "Of any number of requests at once as many get a place as there are.",
    async (store) => {
      const entered = await Promise.all(
        Array.from({ length: 30 }, (_, n) => store.enter("alice", `place ${n}`, places(4))),
      );
      equal(entered.filter(Boolean).length, 4, "the number that got a place");
      equal(await store.enter("alice", "late", places(4)), false, "a fifth place");
    },
  ),
  rule("places-back", "A place that is given back can be taken, and no other.", async (store) => {
    await store.enter("alice", "a", places(1));
    await store.leave("alice", "unknown");
    equal(await store.enter("alice", "b", places(1)), false, "a place that was not given back");
    await store.leave("alice", "a");
    await store.leave("alice", "a");
    equal(await store.enter("alice", "b", places(1)), true, "a place that was");
    equal(await store.enter("alice", "c", places(1)), false, "a second one");
  }),
  rule(
    "places-lapse",
    "A place that nobody prolongs is free when its time is over.",
    async (store) => {
      await store.enter("alice", "a", places(2));
      await store.enter("alice", "b", places(2));
      equal(
        await store.enter("alice", "a", places(2, later(leaseMs - 1))),
        true,
        "prolonging a place",
      );
      equal(
        await store.enter("alice", "c", places(2, later(leaseMs - 1))),
        false,
        "a place too soon",
      );
      equal(await store.enter("alice", "c", places(2, later(leaseMs))), true, "a place in time");
      equal(await store.enter("alice", "d", places(2, later(leaseMs))), false, "a prolonged place");
    },
  ),
  rule("owners-apart", "Each owner has places and files of its own.", async (store) => {
    await store.enter("alice", "a", places(1));
    equal(await store.enter("bob", "a", places(1)), true, "the other's place");
    await store.leave("bob", "a");
    equal(await store.enter("alice", "b", places(1)), false, "a place after the other's was left");
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
      const held = await Promise.all(
        Array.from({ length: 20 }, (_, n) => store.hold("alice", `f${n}`, file(1))),
      );
      equal(held.filter(Boolean).length, 5, "files held");
      equal(await store.hold("alice", "late", file(0)), false, "a sixth file");
      await store.drop("alice", `f${held.indexOf(true)}`);
      await store.drop("alice", `f${held.indexOf(false)}`);
      equal(await store.hold("alice", "a", file(96)), true, "all the bytes that are left");
    },
  ),
  rule(
    "bytes-bound",
    "Of any number of files at once no more is held than there is room for.",
    async (store) => {
      const held = await Promise.all(
        Array.from({ length: 10 }, (_, n) => store.hold("alice", `f${n}`, file(30))),
      );
      equal(held.filter(Boolean).length, 3, "files held");
      equal(await store.hold("alice", "late", file(11)), false, "a byte too many");
      equal(await store.hold("alice", "late", file(10)), true, "the last bytes");
    },
  ),
  rule("hold-anew", "A file that is held anew counts once, with its new bytes.", async (store) => {
    await store.hold("alice", "1", file(60));
    equal(await store.hold("alice", "1", file(101)), false, "more than there is room for");
    equal(await store.hold("alice", "2", file(41)), false, "what the refused one would allow");
    equal(await store.hold("alice", "1", file(90)), true, "more");
    equal(await store.hold("alice", "2", file(11)), false, "more than is left beside it");
    equal(await store.hold("alice", "1", file(10)), true, "less");
    equal(await store.hold("alice", "2", file(90)), true, "the rest");
  }),
  rule(
    "hold-again",
    "A file that counts already may be held with as many bytes also beyond the bounds.",
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
  rule("hold-lapses", "What is held counts no longer when its time is over.", async (store) => {
    await store.hold("alice", "1", file(100));
    const almost = { ...file(1), ...later(leaseMs - 1) };
    equal(await store.hold("alice", "2", almost), false, "a file too soon");
    equal(await store.hold("alice", "2", { ...file(100), ...later(leaseMs) }), true, "in time");
  }),
  rule(
    "settle-counts",
    "A settled file counts until its time is over, once and beyond the bounds, too.",
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
    "What storage shows counts, in place of what it showed and what was settled before.",
    async (store) => {
      await store.settle("alice", "gone", { ...later(0), bytes: 70 });
      await store.settle("alice", "kept", { ...later(0), bytes: 10 });
      const listed = [
        { fileId: "kept", bytes: 20 },
        { fileId: "found", bytes: 30 },
      ];
      await store.seed("alice", listed, { ...later(2), listedAt: start + 1 });
      equal(await store.hold("alice", "1", file(51)), false, "more than is left");
      equal(await store.hold("alice", "1", file(50)), true, "what is left");
      await store.drop("alice", "1");
      await store.seed("alice", [], { ...later(4), listedAt: start + 3 });
      equal(await store.hold("alice", "1", file(100)), true, "everything");
    },
  ),
  rule(
    "seed-spares",
    "What is held, or was settled since storage was looked at, stays as it is.",
    async (store) => {
      await store.hold("alice", "held", file(10));
      await store.settle("alice", "same", { ...later(5), bytes: 10 });
      await store.settle("alice", "since", { ...later(6), bytes: 10 });
      const listed = ["held", "same", "since"].map((fileId) => ({ fileId, bytes: 1 }));
      for (const seen of [[], listed])
        await store.seed("alice", seen, { ...later(7), listedAt: start + 5 });
      equal(await store.hold("alice", "1", file(71)), false, "more than is left");
      equal(await store.hold("alice", "1", file(70)), true, "what is left");
    },
  ),
  rule("seed-lapses", "What storage showed counts until its time is over.", async (store) => {
    await store.seed("alice", [{ fileId: "1", bytes: 100 }], { ...later(0), listedAt: start });
    const almost = { ...file(1), ...later(leaseMs - 1) };
    equal(await store.hold("alice", "2", almost), false, "a file too soon");
    equal(await store.hold("alice", "2", { ...file(100), ...later(leaseMs) }), true, "in time");
  }),
  rule(
    "writer-numbers",
    "A file that nobody has is had at once, and numbers of writers only rise.",
    async (store) => {
      let last = 0;
      for (const afterMs of [0, 0, 1, leaseMs + 1, 100 * leaseMs]) {
        const { writer, outcome } = await store.claim("a", later(afterMs));
        equal(outcome, "held", "the claim of a file that is free");
        equal(writer > last, true, `that ${writer} is more than ${last}`);
        last = writer;
        await store.release("a", writer);
      }
      equal((await store.claim("b", later(0))).outcome, "held", "the claim of another file");
    },
  ),
  rule(
    "writer-wanted",
    "A newer writer waits until the older one, which is told so, has released the file.",
    async (store) => {
      const old = await firstWriter(store);
      const next = await store.claim("a", later(1));
      equal(next.outcome, "waiting", "the claim of a file that is held");
      equal(await store.renew("a", old, later(2)), "wanted", "what the older one hears");
      equal(await store.renew("a", next.writer, later(3)), "waiting", "what the newer one hears");
      await store.release("a", old);
      equal(await store.renew("a", next.writer, later(4)), "held", "what it hears then");
      equal(await store.renew("a", old, later(5)), "lost", "what the older one hears then");
    },
  ),
  rule(
    "writer-bounded",
    "A writer that is wanted has no more time than it was given before.",
    async (store) => {
      const old = await firstWriter(store);
      equal(await store.renew("a", old, later(10)), "held", "prolonging");
      const { writer } = await store.claim("a", later(20));
      equal(await store.renew("a", old, later(leaseMs)), "wanted", "what the older one hears");
      const almost = later(leaseMs + 9);
      equal(await store.renew("a", writer, almost), "waiting", "what the newer one hears");
      equal(await store.renew("a", old, later(leaseMs + 10)), "lost", "the older one in the end");
      equal(await store.renew("a", writer, later(leaseMs + 10)), "held", "the newer in the end");
    },
  ),
  rule("writer-newest", "Of any number of claims at once the newest counts.", async (store) => {
    const old = await firstWriter(store);
    const claims = await Promise.all(Array.from({ length: 20 }, () => store.claim("a", later(1))));
    const numbers = claims.map(({ writer }) => writer);
    equal(new Set(numbers).size, 20, "different numbers");
    await store.release("a", old);
    const outcomes = [];
    for (const writer of numbers) outcomes.push(await store.renew("a", writer, later(2)));
    equal(outcomes.filter((outcome) => outcome === "held").length, 1, "writers that hold it");
    equal(outcomes[numbers.indexOf(Math.max(...numbers))], "held", "what the newest hears");
    equal(outcomes.filter((outcome) => outcome === "lost").length, 19, "writers that lost it");
  }),
  rule(
    "writer-prolongs",
    "A writer that nobody follows goes on, also when its time was over.",
    async (store) => {
      const old = await firstWriter(store);
      equal(await store.renew("a", old, later(leaseMs - 1)), "held", "prolonging");
      equal(await store.renew("a", old, later(3 * leaseMs)), "held", "prolonging late");
      equal((await store.claim("a", later(4 * leaseMs - 1))).outcome, "waiting", "another's claim");
    },
  ),
  rule(
    "writer-released",
    "Who has released a file has it no more, and who gave up waiting never gets it.",
    async (store) => {
      const old = await firstWriter(store);
      const { writer } = await store.claim("a", later(1));
      await store.release("a", writer);
      await store.release("a", old);
      for (const released of [old, writer])
        equal(await store.renew("a", released, later(2)), "lost", "what it hears");
      const { writer: last, outcome } = await store.claim("a", later(3));
      equal(outcome, "held", "the claim after that");
      await store.release("a", old);
      equal(await store.renew("a", last, later(4)), "held", "what it hears after an old release");
    },
  ),
  rule("writer-unknown", "Nobody writes who is older than one that asked.", async (store) => {
    const writer = await firstWriter(store);
    for (const other of [0, writer - 1])
      equal(await store.renew("a", other, later(1)), "lost", "a writer that never was");
    await store.release("a", writer + 1);
    await store.release("b", writer);
    equal(await store.renew("a", writer, later(2)), "held", "the writer that is");
  }),
  rule(
    "writer-forgotten",
    "Writers whose claims were forgotten go on, and the newest of them counts.",
    async (store) => {
      const [old, next] = [start, start + 1];
      equal(await store.renew("a", old, later(2)), "held", "what the older one hears");
      equal(await store.renew("a", next, later(3)), "waiting", "what the newer one hears");
      equal(await store.renew("a", old, later(4)), "wanted", "what the older one hears then");
      await store.release("a", old);
      equal(await store.renew("a", next, later(5)), "held", "what the newer one hears then");
      equal(await store.renew("a", old, later(6)), "lost", "what the older one hears in the end");
    },
  ),
  rule("close-twice", "Closing twice is closing once.", async (store) => {
    await store.close?.();
    await store.close?.();
  }),
];

const start = 1_800_000_000_000;
const leaseMs = 10_000;

/** A lease that begins so many milliseconds after the start. */
function later(ms: number): UploadLease {
  return { now: start + ms, until: start + ms + leaseMs };
}

function places(count: number, lease = later(0)): UploadLease & { readonly places: number } {
  return { ...lease, places: count };
}

/** A file of an owner that may have five files and 100 bytes. */
function file(bytes: number): HeldFile {
  return { ...later(0), bytes, maxFiles: 5, maxBytes: 100 };
}

/** The writer of "a", from the start. */
async function firstWriter(store: UploadStore): Promise<number> {
  const { writer, outcome } = await store.claim("a", later(0));
  equal(outcome, "held", "the first claim");
  return writer;
}
