import { event, holdMs, kit, show, start, stream, type EventStoreCase } from "./event-store-bed.ts";

const { equal, rejects, rule } = kit;

/** One writer at a time. */
export const writerCases: readonly EventStoreCase[] = [
  rule(
    "claim-free",
    "A writer keeps the stream that it holds; of any number of claims after that one wins.",
    async (store) => {
      await store.open("a", stream());
      const claim = (now: number) => store.claim("a", { now, heldUntil: now + holdMs });
      equal(await claim(start + holdMs - 1), undefined, "a claim while it is held");
      const claims = await Promise.all(Array.from({ length: 20 }, () => claim(start + holdMs)));
      equal(show(claims.filter((epoch) => epoch !== undefined)), "[2]", "the claims that won");
      equal(await claim(start + 2 * holdMs), 3, "the next epoch");
      equal(
        await store.claim("none", { now: start, heldUntil: start + 1 }),
        undefined,
        "no stream",
      );
    },
  ),
  rule("claim-fences", "A writer that was replaced writes no more.", async (store) => {
    await store.open("a", stream());
    await store.append("a", event("first"));
    const now = start + holdMs;
    equal(await store.claim("a", { now, heldUntil: now + holdMs }), 2, "the new epoch");
    await rejects(() => store.append("a", { ...event("late"), now }), "precondition_failed");
    equal(
      await store.hold("a", { epoch: 1, now, heldUntil: now + 9 }),
      false,
      "the hold of the old",
    );
    equal(await store.append("a", { ...event("second"), epoch: 2, now }), 2, "the next number");
  }),
  rule(
    "hold-prolongs",
    "A hold can be prolonged any number of times, and ends at once when given up.",
    async (store) => {
      await store.open("a", stream());
      const hold = (now: number, heldUntil: number) =>
        store.hold("a", { epoch: 1, now, heldUntil });
      const claim = (now: number) => store.claim("a", { now, heldUntil: now + holdMs });
      equal(await hold(start + holdMs - 1, start + 3 * holdMs), true, "the hold of the writer");
      equal(await claim(start + 2 * holdMs), undefined, "a claim while it is held");
      equal(
        await hold(start + 5 * holdMs, start + 6 * holdMs),
        true,
        "a late hold, with no claim in between",
      );
      equal(await claim(start + 5 * holdMs), undefined, "a claim after that");
      equal(await hold(start + 5 * holdMs, start + 5 * holdMs), true, "giving up");
      equal(await claim(start + 5 * holdMs), 2, "the claim after that");
    },
  ),
];
