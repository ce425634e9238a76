import {
  ageMs,
  event,
  holdMs,
  kit,
  page,
  show,
  start,
  stream,
  type EventStoreCase,
} from "./event-store-bed.ts";

const { equal, rejects, rule } = kit;

/** The contents of a stream, and until when it keeps them. */
export const streamCases: readonly EventStoreCase[] = [
  rule(
    "events-order",
    "Events come back word for word, in order, from any number on.",
    async (store) => {
      await store.open("a", stream({ record: "rec\u00f6rd\u0000\n" }));
      const texts = ["one", 'two "\u{1f600}"\n', "3"];
      for (const [n, text] of texts.entries())
        equal(await store.append("a", event(text)), n + 1, "the number of an event");
      const all = await page(store, "a", 0);
      equal(all.record, "rec\u00f6rd\u0000\n", "the record");
      equal(show(all.events), show(texts.map((text, n) => ({ seq: n + 1, text }))), "the events");
      equal(all.lastSeq, 3, "the newest number");
      equal(all.isOver, false, "isOver");
      equal(show((await page(store, "a", 2)).events), show([{ seq: 3, text: "3" }]), "the rest");
      equal((await page(store, "a", 3)).events.length, 0, "events after the newest");
      equal(
        show((await page(store, "a", 0, 2)).events.map(({ seq }) => seq)),
        "[1,2]",
        "the first two",
      );
      equal((await page(store, "a", 0, 2)).lastSeq, 3, "the newest number beside a part");
    },
  ),
  rule("events-once", "Simultaneous writing gives every event its own number.", async (store) => {
    await store.open("a", stream());
    const numbers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => store.append("a", event(`event ${n}`))),
    );
    equal(new Set(numbers).size, 40, "different numbers");
    const { events } = await page(store, "a", 0);
    equal(events.map(({ seq }) => seq).join(), numbers.toSorted((a, b) => a - b).join(), "numbers");
    for (const [n, seq] of numbers.entries())
      equal(events[seq - 1]?.text, `event ${n}`, "the event of a number");
  }),
  rule(
    "events-repeated",
    "An event that is sent again under its number is there once, even a question and the last one.",
    async (store) => {
      await store.open("a", stream());
      const events = [
        event("same"),
        event("same"),
        event("asks", { ask: "q" }),
        event("end", { last: { keepUntil: start + 100 } }),
      ];
      for (const [n, said] of events.entries())
        for (let times = 0; times < 2; times++)
          equal(await store.append("a", { ...said, seq: n + 1 }), n + 1, "the number of an event");
      equal((await page(store, "a", 0)).lastSeq, 4, "the newest number");
      await rejects(() => store.append("a", { ...event("other"), seq: 4 }), "precondition_failed");
      await rejects(
        () => store.append("a", { ...event("end"), seq: 4, epoch: 2 }),
        "precondition_failed",
      );
    },
  ),
  rule("streams-apart", "A stream has its own events and questions only.", async (store) => {
    await store.open("a", stream({ record: "A" }));
    await store.open("b", stream({ record: "B" }));
    await store.append("a", event("to a", { ask: "q" }));
    equal((await page(store, "b", 0)).lastSeq, 0, "the newest number of the other");
    equal(
      await store.answer("b", [{ ask: "q", answer: "1" }], start),
      "refused",
      "the other's answer",
    );
    equal(await store.append("b", event("to b", { ask: "q" })), 1, "the other's first number");
    await store.drop("a");
    await store.drop("a");
    equal(await store.read("a", { after: 0, now: start }), undefined, "a dropped stream");
    equal((await page(store, "b", 0)).record, "B", "the other's record");
    await rejects(() => store.append("a", event("late")), "not_found");
    equal(
      await store.answer("a", [{ ask: "q", answer: "1" }], start),
      undefined,
      "an answer to nothing",
    );
  }),
  rule("open-exists", "A stream that is kept is not replaced.", async (store) => {
    await store.open("a", stream({ record: "first" }));
    await rejects(() => store.open("a", stream({ record: "second" })), "already_exists");
    equal((await page(store, "a", 0)).record, "first", "the record");
  }),
  rule("open-expires", "A stream is gone at its end, and its id is free again.", async (store) => {
    await store.open("a", stream());
    await store.append("a", event("x", { ask: "q" }));
    equal((await page(store, "a", 0, undefined, start + ageMs - 1)).lastSeq, 1, "before the end");
    const now = start + ageMs;
    equal(await store.read("a", { after: 0, now }), undefined, "the stream at its end");
    await rejects(() => store.append("a", { ...event("late"), now }), "not_found");
    equal(await store.claim("a", { now, heldUntil: now + 1 }), undefined, "the claim at its end");
    equal(
      await store.hold("a", { epoch: 1, now, heldUntil: now + 1 }),
      false,
      "the hold at its end",
    );
    await store.open("a", { ...stream(), now, expiresAt: now + ageMs });
    const again = await page(store, "a", 0, undefined, now);
    equal(again.lastSeq + again.asks.length, 0, "the rest of the old one");
  }),
  rule("last-ends", "After the last event there is no other, and no writer.", async (store) => {
    await store.open("a", stream());
    await store.append("a", event("end", { last: { keepUntil: start + 100 } }));
    equal((await page(store, "a", 0)).isOver, true, "isOver");
    await rejects(() => store.append("a", event("more")), "precondition_failed");
    const now = start + 50;
    equal(
      await store.hold("a", { epoch: 1, now, heldUntil: now }),
      false,
      "the hold of its writer",
    );
    const later = { now: start + holdMs, heldUntil: start + 2 * holdMs };
    equal(await store.claim("a", later), undefined, "the claim of another");
  }),
  rule(
    "last-kept",
    "An ended stream is kept as long as its last event says, and no longer than its end.",
    async (store) => {
      await store.open("a", stream());
      await store.append("a", event("end", { last: { keepUntil: start + 100 } }));
      equal(
        (await page(store, "a", 0, undefined, start + 99)).events[0]?.text,
        "end",
        "the last event",
      );
      equal(
        await store.read("a", { after: 0, now: start + 100 }),
        undefined,
        "the stream after that",
      );
      await store.open("b", stream());
      await store.append("b", event("end", { last: { keepUntil: start + 10 * ageMs } }));
      equal(
        await store.read("b", { after: 0, now: start + ageMs }),
        undefined,
        "a stream at its end",
      );
    },
  ),
];
