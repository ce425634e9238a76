import type { EventStore, EventStoreLimits } from "@sluice/state";
import { createMemoryEventStore } from "@sluice/state/internal";

type MakeEventStore = (limits: EventStoreLimits) => EventStore;

/** For every rule of the event store, a store that breaks it. */
export const brokenEventStores: Readonly<Record<string, MakeEventStore>> = {
  "events-order": changed((store) => ({
    read: (id, from) => store.read(id, { ...from, after: Math.max(0, from.after - 1) }),
  })),
  "events-once": changed((store) => {
    let last = 0;
    return {
      async append(id, event) {
        const seq = last + 1;
        await Promise.resolve();
        await store.append(id, event);
        return (last = seq);
      },
    };
  }),
  "events-repeated": changed((store) => ({
    append: (id, { seq: _seq, ...event }) => store.append(id, event),
  })),
  "streams-apart": changed(() => ({ async drop() {} })),
  "open-exists": changed((store) => ({
    async open(id, stream) {
      await store.drop(id);
      await store.open(id, stream);
    },
  })),
  "open-expires": changed((store) => ({
    open: (id, stream) => store.open(id, { ...stream, expiresAt: Infinity }),
  })),
  "last-ends": changed((store) => ({
    async hold(id, writer) {
      const page = await store.read(id, { after: 0, now: writer.now });
      return page?.isOver || store.hold(id, writer);
    },
  })),
  "last-kept": changed((store) => ({
    append: (id, { last, ...event }) =>
      store.append(id, { ...event, ...(last && { last: { keepUntil: Infinity } }) }),
  })),
  "claim-free": changed((store) => {
    let epoch = 1;
    return {
      async claim(id, { now, heldUntil }) {
        // the usual mistake: look first, write later, with a pause in between
        const isFree = (await store.read(id, { after: 0, now })) !== undefined;
        const won = await store.claim(id, { now, heldUntil });
        if (won !== undefined) epoch = won;
        return isFree && won === undefined && epoch > 1 ? epoch : won;
      },
    };
  }),
  "claim-fences": changed((store) => {
    let epoch = 1;
    return {
      async claim(id, times) {
        const claimed = await store.claim(id, times);
        epoch = claimed ?? epoch;
        return claimed;
      },
      append: (id, event) => store.append(id, { ...event, epoch }),
    };
  }),
  "hold-prolongs": changed((store) => ({
    hold: (id, { epoch, now, heldUntil }) =>
      store.hold(id, { epoch, now, heldUntil: Math.min(heldUntil, now) }),
  })),
  "answers-kept": changed((store) => ({
    async read(id, from) {
      const page = await store.read(id, from);
      return page && { ...page, asks: page.asks.filter(({ answer }) => answer === undefined) };
    },
  })),
  "answers-first": changed((store) => ({
    async answer(id, answers, now) {
      const outcome = await store.answer(id, answers, now);
      return outcome === "repeated" ? "refused" : outcome;
    },
  })),
  "answers-whole": changed((store) => ({
    async answer(id, answers, now) {
      let result: Awaited<ReturnType<EventStore["answer"]>> = "refused";
      for (const one of answers) {
        const outcome = await store.answer(id, [one], now);
        if (outcome !== "refused") result = outcome;
      }
      return result;
    },
  })),
  "answers-end": changed((store) => ({
    async answer(id, answers, now) {
      const outcome = await store.answer(id, answers, now);
      const over = await store.read(id, { after: 0, now });
      return outcome === "refused" && over?.isOver ? "accepted" : outcome;
    },
  })),
  "bound-events": (limits) => createMemoryEventStore({ ...limits, maxEvents: 1_000 }),
  "bound-bytes": (limits) => createMemoryEventStore({ ...limits, maxBytes: 1_000_000 }),
  "bound-streams": (limits) => createMemoryEventStore({ ...limits, maxStreams: 1_000 }),
  "bound-expired": changed((store) => ({
    open: (id, stream) => store.open(id, { ...stream, expiresAt: stream.expiresAt + 60_000 }),
  })),
  "bound-total": (limits) => createMemoryEventStore({ ...limits, maxTotalBytes: 1_000_000 }),
  "close-twice": changed(() => {
    let isOpen = true;
    return {
      async close() {
        if (!isOpen) throw new Error("event store: closed already");
        isOpen = false;
      },
    };
  }),
};

function changed(change: (store: EventStore) => Partial<EventStore>): MakeEventStore {
  return (limits) => {
    const store = createMemoryEventStore(limits);
    return { ...store, ...change(store) };
  };
}
