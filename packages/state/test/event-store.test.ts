import { createMemoryEventStore } from "@sluice/state/internal";
import { eventStoreCases } from "@sluice/state/conformance";
import { describe, expect, test } from "vitest";
import { brokenEventStores } from "./broken-event-stores.ts";

describe("the rules of an event store", () => {
  test.each(eventStoreCases)("$id: $sentence", async ({ run }) => {
    await expect(run(createMemoryEventStore)).resolves.toBeUndefined();
  });

  test("every rule has its own broken store", () => {
    const ids = eventStoreCases.map(({ id }) => id);
    expect(Object.keys(brokenEventStores).toSorted()).toEqual(ids.toSorted());
  });

  test.each(Object.entries(brokenEventStores))(
    "the store that breaks %s is caught by it, and by little else",
    async (broken, make) => {
      const caught: string[] = [];
      for (const { id, run } of eventStoreCases)
        await run(make).catch((error: Error) => caught.push(`${id} ${error.message.slice(0, 12)}`));
      expect(caught).toContain(`${broken} event store:`);
      expect(caught.length).toBeLessThanOrEqual(4);
    },
  );
});

test("rejects an invalid bound", () => {
  for (const limit of [0, -1, 1.5, Number.NaN, Infinity])
    for (const name of ["maxEvents", "maxBytes", "maxStreams", "maxTotalBytes"])
      expect(() => createMemoryEventStore({ [name]: limit })).toThrow(RangeError);
});

test("a store that stays full is searched for room once a second at most", async () => {
  const now = 1_800_000_000_000;
  const store = createMemoryEventStore({ maxStreams: 2 });
  const open = (id: string, at: number, expiresAt: number) =>
    store.open(id, { record: "", now: at, expiresAt, heldUntil: at });
  await open("a", now, now + 1_000);
  await open("b", now, now + 1_500);
  await open("c", now + 1_000, now + 9_000);
  await expect(open("d", now + 1_900, now + 9_000)).rejects.toMatchObject({ code: "unavailable" });
  await open("d", now + 2_000, now + 9_000);
});
