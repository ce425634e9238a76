import type { UploadStore } from "@sluice/state";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { uploadStoreCases } from "@sluice/state/conformance";
import { describe, expect, test } from "vitest";
import { brokenUploadStores } from "./broken-upload-stores.ts";

const now = 1_800_000_000_000;

describe("the rules of an upload store", () => {
  test.each(uploadStoreCases)("$id: $sentence", async ({ run }) => {
    await expect(run(createMemoryUploadStore)).resolves.toBeUndefined();
  });

  test("every rule has its own broken store", () => {
    const ids = uploadStoreCases.map(({ id }) => id);
    expect(Object.keys(brokenUploadStores).toSorted()).toEqual(ids.toSorted());
  });

  test.each(Object.entries(brokenUploadStores))(
    "the store that breaks %s is caught by it, and by little else",
    async (broken, make) => {
      const caught: string[] = [];
      for (const { id, run } of uploadStoreCases)
        await run(make).catch((error: Error) => caught.push(`${id} ${error.message.slice(0, 13)}`));
      expect(caught).toContain(`${broken} upload store:`);
      expect(caught.length).toBeLessThanOrEqual(5);
    },
  );
});

const lease = { now, until: now + 1_000 };

let filling: Promise<UploadStore> | undefined;
/** A store that has all the live writers it takes, filled once. */
function fullStore(): Promise<UploadStore> {
  return (filling ??= fill());
}

async function fill(): Promise<UploadStore> {
  const store = createMemoryUploadStore();
  for (let n = 0; n < 100_000; n++) await store.claim(`live ${n}`, lease);
  return store;
}

test(
  "files that were released make room at once, and their last writers are known for a while",
  { tags: "slow" },
  async () => {
    const store = await fullStore();
    await store.release("live 0", now);
    let last = 0;
    let held = 0;
    for (let n = 0; n < 100; n++) {
      const { writer, outcome } = await store.claim(`${n}`, lease);
      held += Number(outcome === "held");
      ({ writer: last } = await store.claim(`${n}`, lease));
      await store.release(`${n}`, last);
      await store.release(`${n}`, writer);
    }
    expect(held).toBe(100);
    expect(await store.renew("99", last, lease)).toBe("lost");
    const { writer } = await store.claim("99", lease);
    expect(writer).toBeGreaterThan(last);
    await store.release("99", writer);
    await store.claim("live 0", lease);
  },
);

test("a store that is full of live writers takes no other, until their time expires", async () => {
  const store = await fullStore();
  await expect(store.claim("one more", lease)).rejects.toMatchObject({
    code: "unavailable",
    retryAfterMs: 1_000,
  });
  const later = { now: now + 120_000, until: now + 121_000 };
  expect(await store.claim("one more", later)).toMatchObject({ outcome: "held" });
});
