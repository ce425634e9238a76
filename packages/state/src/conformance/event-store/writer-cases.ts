import {
  asking,
  event,
  type EventStoreCase,
  holdMs,
  kit,
  page,
  show,
  start,
  stream,
} from "./event-store-bed.ts";

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

/** Answers to the questions of a stream. */
export const answerCases: readonly EventStoreCase[] = [
  rule(
    "answers-kept",
    "Answers are kept with their questions, in the order these were asked.",
    async (store) => {
      await asking(store, "q1", "q2", "q3");
      const answers = [
        { ask: "q3", answer: '{"text":"\u00e9"}' },
        { ask: "q1", answer: "1" },
      ];
      equal(await store.answer("a", answers, start), "accepted", "the outcome");
      equal(
        show((await page(store, "a", 3)).asks),
        show([
          { ask: "q1", seq: 1, answer: "1" },
          { ask: "q2", seq: 2 },
          { ask: "q3", seq: 3, answer: '{"text":"\u00e9"}' },
        ]),
        "the questions",
      );
      await rejects(() => store.append("a", event("again", { ask: "q1" })), "already_exists");
      equal((await page(store, "a", 0)).lastSeq, 3, "the newest number");
    },
  ),
  rule(
    "answers-first",
    "The first answer counts; the same again is not an error, another one is.",
    async (store) => {
      await asking(store, "q1", "q2");
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          store.answer("a", [{ ask: "q1", answer: String(n) }], start),
        ),
      );
      equal(outcomes.filter((outcome) => outcome === "accepted").length, 1, "answers accepted");
      equal(outcomes.filter((outcome) => outcome === "refused").length, 19, "answers refused");
      const answer = (await page(store, "a", 0)).asks[0]!.answer!;
      equal(answer, String(outcomes.indexOf("accepted")), "the answer");
      const same = { ask: "q1", answer };
      equal(await store.answer("a", [same], start), "repeated", "the same answer again");
      const more = [same, { ask: "q2", answer: "2" }];
      equal(await store.answer("a", more, start), "accepted", "the same and a new one");
      equal(await store.answer("a", more, start), "repeated", "both again");
    },
  ),
  rule("answers-whole", "Answers are kept all together or not at all.", async (store) => {
    await asking(store, "q1", "q2");
    const q1 = { ask: "q1", answer: "1" };
    for (const wrong of [
      [],
      [q1, { ask: "unknown", answer: "2" }],
      [q1, q1],
      [{ ask: "__proto__", answer: "3" }],
      [{ ask: "constructor", answer: "3" }],
    ])
      equal(await store.answer("a", wrong, start), "refused", `the outcome of ${show(wrong)}`);
    equal(
      show((await page(store, "a", 0)).asks.map(({ answer }) => answer ?? 0)),
      "[0,0]",
      "answers",
    );
  }),
  rule("answers-end", "An ended stream takes no answer.", async (store) => {
    await asking(store, "q1", "q2");
    await store.answer("a", [{ ask: "q1", answer: "1" }], start);
    await store.append("a", event("end", { last: { keepUntil: start + 100 } }));
    equal(await store.answer("a", [{ ask: "q2", answer: "2" }], start), "refused", "a new answer");
    equal(
      await store.answer("a", [{ ask: "q1", answer: "1" }], start),
      "repeated",
      "an old answer",
    );
  }),
];
