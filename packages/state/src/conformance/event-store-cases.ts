import {
  lastEventBytes,
  type EventStore,
  type EventStoreLimits,
  type NewEvent,
  type NewStream,
} from "../contract/event-store.ts";
import { storeCase, storeChecks, type StoreCase } from "./store-case.ts";

/** Makes a new, empty store with these bounds. */
export type MakeEventStore = (limits: EventStoreLimits) => EventStore | Promise<EventStore>;

/** One rule that every event store keeps, with the check that shows it. */
export type EventStoreCase = StoreCase<EventStore, [limits: EventStoreLimits]>;

const { equal, rejects } = storeChecks("event store");

/** The rules of {@link EventStore}, to be run by any test runner or none. */
export const eventStoreCases: readonly EventStoreCase[] = [
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
  rule(
    "events-once",
    "Simultaneous writing gives every event a number of its own.",
    async (store) => {
      await store.open("a", stream());
      const numbers = await Promise.all(
        Array.from({ length: 40 }, (_, n) => store.append("a", event(`event ${n}`))),
      );
      equal(new Set(numbers).size, 40, "different numbers");
      const { events } = await page(store, "a", 0);
      equal(
        events.map(({ seq }) => seq).join(),
        numbers.toSorted((a, b) => a - b).join(),
        "numbers",
      );
      for (const [n, seq] of numbers.entries())
        equal(events[seq - 1]?.text, `event ${n}`, "the event of a number");
    },
  ),
  rule(
    "events-repeated",
    "An event that is told again under its number is there once, also a question and the last one.",
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
    equal(again.lastSeq + again.asks.length, 0, "what is left of the old one");
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
    "A stream that is over is kept as long as its last event says, and no longer than its end.",
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
  rule(
    "claim-free",
    "Who holds a stream keeps it; of any number of claims after that one wins.",
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
    "Holding goes on as often as wanted, and ends at once when it is given up.",
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
        "a late hold that nobody missed",
      );
      equal(await claim(start + 5 * holdMs), undefined, "a claim after that");
      equal(await hold(start + 5 * holdMs, start + 5 * holdMs), true, "giving up");
      equal(await claim(start + 5 * holdMs), 2, "the claim after that");
    },
  ),
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
    "The first answer counts; the same again is no error, another one is.",
    async (store) => {
      await asking(store, "q1", "q2");
      const given = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          store.answer("a", [{ ask: "q1", answer: String(n) }], start),
        ),
      );
      equal(given.filter((outcome) => outcome === "accepted").length, 1, "answers accepted");
      equal(given.filter((outcome) => outcome === "refused").length, 19, "answers refused");
      const answer = (await page(store, "a", 0)).asks[0]!.answer!;
      equal(answer, String(given.indexOf("accepted")), "the answer");
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
  rule("answers-end", "Nobody answers a stream that is over.", async (store) => {
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
  rule(
    "bound-events",
    "A stream keeps so many events, and its last one always.",
    async (store) => {
      await store.open("a", stream());
      for (let n = 0; n < 8; n++) await store.append("a", event("x"));
      await rejects(() => store.append("a", event("x", { ask: "q" })), "too_large");
      equal((await page(store, "a", 0)).asks.length, 0, "questions of a refused event");
      const last = { last: { keepUntil: start + 100 } };
      equal(await store.append("a", event("x".repeat(lastEventBytes), last)), 9, "the last number");
    },
    { maxEvents: 8 },
  ),
  rule(
    "bound-bytes",
    "A stream keeps so many bytes of UTF-8: record, events and answers.",
    async (store) => {
      await rejects(() => store.open("a", stream({ record: "x".repeat(2_001) })), "too_large");
      await store.open("a", stream({ record: "x".repeat(500) }));
      await store.append("a", event("\u20ac".repeat(300), { ask: "q" }));
      await rejects(() => store.append("a", event("\u20ac".repeat(201))), "too_large");
      await rejects(
        () => store.answer("a", [{ ask: "q", answer: "\u20ac".repeat(201) }], start),
        "too_large",
      );
      equal((await page(store, "a", 0)).asks[0]!.answer, undefined, "an answer beyond the bound");
      equal(
        await store.answer("a", [{ ask: "q", answer: "\u20ac".repeat(200) }], start),
        "accepted",
        "an answer",
      );
      await rejects(() => store.append("a", event("x")), "too_large");
      const last = { last: { keepUntil: start + 100 } };
      await rejects(
        () => store.append("a", event("x".repeat(lastEventBytes + 1), last)),
        "too_large",
      );
      equal(await store.append("a", event("x".repeat(lastEventBytes), last)), 2, "the last number");
    },
    { maxBytes: 2_000 },
  ),
  rule(
    "bound-streams",
    "A full store refuses new streams and keeps the live ones; those that are over make room, the first first.",
    async (store) => {
      for (const id of ["a", "b", "c"]) await store.open(id, stream({ record: id }));
      await rejects(() => store.open("d", stream()), "unavailable");
      for (const id of ["b", "a"])
        await store.append(id, event("end", { last: { keepUntil: start + 9_000 } }));
      await store.open("d", stream({ record: "d" }));
      const kept = await Promise.all(
        ["a", "b", "c", "d"].map((id) => store.read(id, { after: 0, now: start })),
      );
      equal(show(kept.map((read) => read?.record ?? "")), show(["a", "", "c", "d"]), "the streams");
    },
    { maxStreams: 3 },
  ),
  rule(
    "bound-expired",
    "Streams at their end make room, too.",
    async (store) => {
      await store.open("a", stream({ expiresAt: start + 5_000 }));
      await store.open("b", stream({ expiresAt: start + 9_000 }));
      await rejects(() => store.open("c", stream()), "unavailable");
      const now = start + 5_000;
      await store.open("c", { ...stream(), now, expiresAt: now + ageMs });
      equal((await page(store, "b", 0, undefined, now)).lastSeq, 0, "the one that is not");
    },
    { maxStreams: 2 },
  ),
  rule(
    "bound-total",
    "All streams together keep so many bytes; what is dropped is room again.",
    async (store) => {
      await store.open("a", stream({ record: "x".repeat(1_000) }));
      await store.open("b", stream({ record: "x".repeat(1_000) }));
      await store.append("b", event("x".repeat(800), { ask: "q" }));
      await rejects(() => store.append("b", event("x".repeat(201))), "unavailable");
      await rejects(
        () => store.answer("b", [{ ask: "q", answer: "x".repeat(201) }], start),
        "unavailable",
      );
      await rejects(() => store.open("c", stream({ record: "x".repeat(201) })), "unavailable");
      await store.append("b", event("x".repeat(200)));
      const last = { last: { keepUntil: start + 9_000 } };
      await store.append("a", event("end", last));
      await store.append("b", event("x".repeat(900)));
      equal(await store.read("a", { after: 0, now: start }), undefined, "the stream that is over");
      await store.append("b", event("x".repeat(lastEventBytes), last));
      await store.drop("b");
      for (const id of ["c", "d", "e"]) await store.open(id, stream({ record: "x".repeat(1_000) }));
    },
    { maxTotalBytes: 3_000 },
  ),
  rule("close-twice", "Closing twice is closing once.", async (store) => {
    await store.close?.();
    await store.close?.();
  }),
];

const start = 1_800_000_000_000;
const ageMs = 3_600_000;
const holdMs = 10_000;

function stream(other: Partial<NewStream> = {}): NewStream {
  return { record: "", now: start, expiresAt: start + ageMs, heldUntil: start + holdMs, ...other };
}

function event(text: string, other: Partial<NewEvent> = {}): NewEvent {
  return { epoch: 1, text, now: start, ...other };
}

/** A stream "a" that asks these questions, in its events from 1. */
async function asking(store: EventStore, ...asks: readonly string[]): Promise<void> {
  await store.open("a", stream());
  for (const ask of asks) await store.append("a", event(`asks ${ask}`, { ask }));
}

async function page(
  store: EventStore,
  id: string,
  after: number,
  maxEvents?: number,
  now: number = start,
) {
  const read = await store.read(id, { after, now, ...(maxEvents !== undefined && { maxEvents }) });
  if (!read) throw new Error(`event store: the stream ${show(id)} should be there`);
  return read;
}

function rule(
  id: string,
  sentence: string,
  check: (store: EventStore) => Promise<void>,
  limits: EventStoreLimits = {},
): EventStoreCase {
  return storeCase(id, sentence, check, limits);
}

function show(value: unknown): string {
  return JSON.stringify(value);
}
