import { lastEventBytes } from "../../contract/event-store.ts";
import {
  ageMs,
  event,
  kit,
  page,
  show,
  start,
  stream,
  type EventStoreCase,
} from "./event-store-bed.ts";

const { equal, rejects, rule } = kit;

/** How much a store keeps. */
export const boundCases: readonly EventStoreCase[] = [
  rule(
    "bound-events",
    "A stream keeps up to maxEvents events, and its last one always.",
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
    "A stream keeps up to maxBytes of UTF-8: record, events and answers.",
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
    "A full store refuses new streams and keeps the live ones; ended ones make room, the first first.",
    async (store) => {
      for (const id of ["a", "b", "c"]) await store.open(id, stream({ record: id }));
      await rejects(() => store.open("d", stream()), "unavailable");
      for (const id of ["b", "a"])
        await store.append(id, event("end", { last: { keepUntil: start + 9_000 } }));
      await store.open("d", stream({ record: "d" }));
      const streams = await Promise.all(
        ["a", "b", "c", "d"].map((id) => store.read(id, { after: 0, now: start })),
      );
      equal(
        show(streams.map((read) => read?.record ?? "")),
        show(["a", "", "c", "d"]),
        "the streams",
      );
    },
    { maxStreams: 3 },
  ),
  rule(
    "bound-expired",
    "Streams at their end also make room.",
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
    "All streams together keep up to maxTotalBytes; dropped streams make room again.",
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
      equal(await store.read("a", { after: 0, now: start }), undefined, "the ended stream");
      await store.append("b", event("x".repeat(lastEventBytes), last));
      await store.drop("b");
      for (const id of ["c", "d", "e"]) await store.open(id, stream({ record: "x".repeat(1_000) }));
    },
    { maxTotalBytes: 3_000 },
  ),
];
