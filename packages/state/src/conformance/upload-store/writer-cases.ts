import {
  firstWriter,
  kit,
  later,
  leaseMs,
  start,
  type UploadStoreCase,
} from "./upload-store-bed.ts";

const { equal, rule } = kit;

/** The one writer of a file. */
export const writerCases: readonly UploadStoreCase[] = [
  rule(
    "writer-numbers",
    "A free file goes to its first claim at once, and numbers of writers only rise.",
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
    "A newer writer waits until the older one, which learns of it, has released the file.",
    async (store) => {
      const old = await firstWriter(store);
      const next = await store.claim("a", later(1));
      equal(next.outcome, "waiting", "the claim of a file that is held");
      equal(await store.renew("a", old, later(2)), "wanted", "the state of the older one");
      equal(await store.renew("a", next.writer, later(3)), "waiting", "the state of the newer one");
      await store.release("a", old);
      equal(await store.renew("a", next.writer, later(4)), "held", "its state then");
      equal(await store.renew("a", old, later(5)), "lost", "the state of the older one then");
    },
  ),
  rule(
    "writer-bounded",
    "A writer that is wanted has no more time than it was given before.",
    async (store) => {
      const old = await firstWriter(store);
      equal(await store.renew("a", old, later(10)), "held", "prolonging");
      const { writer } = await store.claim("a", later(20));
      equal(await store.renew("a", old, later(leaseMs)), "wanted", "the state of the older one");
      const almost = later(leaseMs + 9);
      equal(await store.renew("a", writer, almost), "waiting", "the state of the newer one");
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
    equal(outcomes[numbers.indexOf(Math.max(...numbers))], "held", "the state of the newest");
    equal(outcomes.filter((outcome) => outcome === "lost").length, 19, "writers that lost it");
  }),
  rule(
    "writer-prolongs",
    "A writer without a newer one continues, even after its time expired.",
    async (store) => {
      const old = await firstWriter(store);
      equal(await store.renew("a", old, later(leaseMs - 1)), "held", "prolonging");
      equal(await store.renew("a", old, later(3 * leaseMs)), "held", "prolonging late");
      equal((await store.claim("a", later(4 * leaseMs - 1))).outcome, "waiting", "another's claim");
    },
  ),
  rule(
    "writer-released",
    "A writer that released a file has it no more, and one that gave up waiting never gets it.",
    async (store) => {
      const old = await firstWriter(store);
      const { writer } = await store.claim("a", later(1));
      await store.release("a", writer);
      await store.release("a", old);
      for (const released of [old, writer])
        equal(await store.renew("a", released, later(2)), "lost", "its state");
      const { writer: last, outcome } = await store.claim("a", later(3));
      equal(outcome, "held", "the claim after that");
      await store.release("a", old);
      equal(await store.renew("a", last, later(4)), "held", "its state after an old release");
    },
  ),
  rule(
    "writer-unknown",
    "A writer that is older than another that asked writes nothing.",
    async (store) => {
      const writer = await firstWriter(store);
      for (const other of [0, writer - 1])
        equal(await store.renew("a", other, later(1)), "lost", "a writer that never was");
      await store.release("a", writer + 1);
      await store.release("b", writer);
      equal(await store.renew("a", writer, later(2)), "held", "the writer that is");
    },
  ),
  rule(
    "writer-forgotten",
    "Writers whose claims were forgotten continue, and the newest of them counts.",
    async (store) => {
      const [old, next] = [start, start + 1];
      equal(await store.renew("a", old, later(2)), "held", "the state of the older one");
      equal(await store.renew("a", next, later(3)), "waiting", "the state of the newer one");
      equal(await store.renew("a", old, later(4)), "wanted", "the state of the older one then");
      await store.release("a", old);
      equal(await store.renew("a", next, later(5)), "held", "the state of the newer one then");
      equal(await store.renew("a", old, later(6)), "lost", "the state of the older one in the end");
    },
  ),
];
