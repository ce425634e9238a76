import {
  withCache,
  createMemoryBackend,
  type OpenOptions,
  type StorageBackend,
  wrapBackend,
} from "@sluice/storage";
import { cacheIn } from "@sluice/storage/internal";
import { describe, expect, test } from "vitest";
import { createManualClock, settle } from "./manual-clock.ts";
import { createScripted } from "./scripted-backend.ts";

const textOf = async (backend: StorageBackend, key: string, options?: OpenOptions) =>
  new Response((await backend.open(key, options)).body).text();

/** A cache over a scripted backend, and the calls that came through since they were last asked for. */
function setUp(options: Parameters<typeof cacheIn>[1] = {}) {
  const { store, backend, calls } = createScripted();
  store.put("a", "0123456789");
  return { store, cache: cacheIn(backend, options), calls: () => calls.splice(0) };
}

describe("a cache of small objects", () => {
  test("reads an object once, and gives ranges of it, its size and its facts", async () => {
    const { cache, calls } = setUp();
    expect(await textOf(cache, "a")).toBe("0123456789");
    expect(calls()).toEqual(["describe a", "open a"]);
    for (const [range, text] of [
      [{ start: 2, end: 5 }, "234"],
      [{ start: 7 }, "789"],
      [{ start: 9, end: 99 }, "9"],
    ] as const) {
      const opened = await cache.open("a", { range });
      expect([await new Response(opened.body).text(), opened.info.size]).toEqual([text, 10]);
    }
    await expect(cache.open("a", { range: { start: 10 } })).rejects.toMatchObject({
      code: "range_not_satisfiable",
      size: 10,
    });
    expect(calls()).toEqual(Array.from({ length: 4 }, () => "describe a"));
  });

  test("a range that comes first reads the whole, for those that come after", async () => {
    const { cache, calls } = setUp();
    expect(await textOf(cache, "a", { range: { start: 8 } })).toBe("89");
    expect(await textOf(cache, "a")).toBe("0123456789");
    expect(calls()).toEqual(["describe a", "open a", "describe a"]);
  });

  test("gives no version but the one that storage names, nor what is gone", async () => {
    const { cache, store, calls } = setUp();
    const { etag } = await cache.describe("a");
    await textOf(cache, "a");
    store.put("a", "another");
    await expect(cache.open("a", { ifMatch: etag! })).rejects.toMatchObject({
      code: "precondition_failed",
    });
    expect(await textOf(cache, "a")).toBe("another");
    expect(calls().filter((call) => call.startsWith("open"))).toHaveLength(2);
    await store.remove("a");
    await expect(cache.open("a")).rejects.toMatchObject({ code: "not_found" });
  });

  test("negative control: a cache that asks nothing gives the old version, and is detected", async () => {
    const { cache, store } = setUp({ maxAgeMs: Infinity });
    await textOf(cache, "a");
    store.put("a", "another");
    expect(await textOf(cache, "a")).not.toBe("another");
  });

  test("with a maximum age storage is not asked within it, and is asked after it", async () => {
    const clock = createManualClock();
    const { cache, store, calls } = setUp({ maxAgeMs: 1_000, clock });
    await textOf(cache, "a");
    store.put("a", "another");
    calls();
    await clock.advance(999);
    expect([await textOf(cache, "a"), (await cache.describe("a")).size]).toEqual([
      "0123456789",
      10,
    ]);
    expect(calls()).toEqual([]);
    await clock.advance(1);
    expect(await textOf(cache, "a")).toBe("another");
  });

  test("shows its own writes and removals at once, even within a maximum age", async () => {
    const { cache } = setUp({ maxAgeMs: 60_000 });
    await textOf(cache, "a");
    const writer = await cache.write!("a");
    await writer.write(new TextEncoder().encode("new"));
    await writer.commit();
    expect(await textOf(cache, "a")).toBe("new");
    await cache.remove!("a");
    await expect(cache.open("a")).rejects.toMatchObject({ code: "not_found" });
  });

  test("callers that want one object at the same time share one read", async () => {
    const { cache, calls } = setUp();
    const texts = await Promise.all(Array.from({ length: 20 }, () => textOf(cache, "a")));
    expect(new Set(texts)).toEqual(new Set(["0123456789"]));
    expect(calls().filter((call) => call === "open a")).toHaveLength(1);
  });

  test("a shared read continues while one waits for it, and ends with the last", async () => {
    const signals: AbortSignal[] = [];
    let answer: (() => void) | undefined;
    const slow = wrapBackend(createMemoryBackend({ a: "slow" }), {
      open: (open) => async (key, options) => {
        signals.push(options!.signal!);
        await new Promise<void>((resolve) => (answer = resolve));
        return open(key, options);
      },
    });
    const cache = withCache(slow);
    const [one, two] = [new AbortController(), new AbortController()];
    const first = textOf(cache, "a", { signal: one.signal });
    const second = textOf(cache, "a", { signal: two.signal });
    await settle();
    one.abort(new Error("gone"));
    await expect(first).rejects.toThrow("gone");
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    answer!();
    expect(await second).toBe("slow");
    const last = new AbortController();
    const next = createMemoryBackend({ a: "next" });
    slow.describe = (key) => next.describe(key);
    const third = textOf(cache, "a", { signal: last.signal });
    await settle();
    last.abort(new Error("gone too"));
    await expect(third).rejects.toThrow("gone too");
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  test("a read that brings nothing for 30 s ends, and the next one begins anew", async () => {
    const clock = createManualClock();
    let opens = 0;
    const stuck = wrapBackend(createMemoryBackend({ a: "x" }), {
      open: () => () => {
        opens += 1;
        return new Promise(() => {});
      },
    });
    const cache = cacheIn(stuck, { clock });
    for (let n = 1; n <= 2; n++) {
      const error = cache.open("a").catch((reason: unknown) => reason);
      await settle();
      await clock.advance(30_000);
      expect(await error).toMatchObject({ code: "timeout" });
      expect(opens).toBe(n);
    }
    expect(clock.waiting()).toBe(0);
  });

  test("gives the reader its own bytes: changing them changes nothing that others get", async () => {
    const { cache } = setUp();
    for (const take of ["bytes", "body"] as const) {
      const opened = await cache.open("a");
      const bytes =
        take === "bytes" ? opened.bytes! : (await opened.body.getReader().read()).value!;
      bytes.fill(0);
      expect(await textOf(cache, "a")).toBe("0123456789");
    }
    const { cache: asked } = setUp({ maxAgeMs: 60_000 });
    for (let n = 0; n < 2; n++)
      for (const info of [(await asked.open("a")).info, await asked.describe("a")])
        Object.assign(info, { key: "b", size: 1 }).lastModified?.setTime(0);
    for (const info of [(await asked.open("a")).info, await asked.describe("a")]) {
      expect(info).toMatchObject({ key: "a", size: 10 });
      expect(info.lastModified?.getTime()).not.toBe(0);
    }
  });

  test("larger objects, and those without an etag or a size, are read as without it", async () => {
    for (const without of ["etag", "size"] as const) {
      const { backend, store, calls } = createScripted((inner) => ({
        describe: () => async (key) => {
          const { [without]: _left, ...info } = await inner.describe(key);
          return info;
        },
      }));
      store.put("a", "x");
      const cache = withCache(backend);
      for (let n = 0; n < 2; n++) await textOf(cache, "a");
      expect(calls.filter((call) => call === "open a")).toHaveLength(2);
    }
    const { cache, store, calls } = setUp({ maxObjectBytes: 9 });
    for (let n = 0; n < 2; n++) expect(await textOf(cache, "a", { range: { start: 9 } })).toBe("9");
    expect(calls().filter((call) => call.startsWith("open"))).toEqual([
      "open a [9, undefined)",
      "open a [9, undefined)",
    ]);
    store.put("small", "x");
    for (let n = 0; n < 2; n++) await textOf(cache, "small");
    expect(calls().filter((call) => call.startsWith("open"))).toEqual(["open small"]);
  });

  test("it keeps no more bytes than it may, and evicts the least recently read", async () => {
    const { cache, store, calls } = setUp({ maxBytes: 3 * 2_024, maxObjectBytes: 1_000 });
    for (const key of ["1", "2", "3", "4"]) store.put(key, "x".repeat(1_000));
    const opened = async (...keys: string[]) => {
      for (const key of keys) await textOf(cache, key);
      return calls().filter((call) => call.startsWith("open"));
    };
    expect(await opened("1", "2", "3")).toHaveLength(3);
    expect(await opened("1", "2", "3", "1")).toEqual([]);
    expect(await opened("4")).toEqual(["open 4"]);
    expect(await opened("1", "3", "4")).toEqual([]);
    expect(await opened("2")).toEqual(["open 2"]);
  });

  test("bytes that do not have the promised digest are corrupt, and not kept", async () => {
    const store = createMemoryBackend({ a: "right" });
    let isWrong = true;
    const cache = withCache(
      wrapBackend(store, {
        open: (open) => async (key, options) => {
          const opened = await open(key, options);
          if (!isWrong) return opened;
          await opened.body.cancel();
          return { ...opened, body: new Response("wrong").body! };
        },
      }),
    );
    await expect(cache.open("a")).rejects.toMatchObject({ code: "corrupt" });
    isWrong = false;
    expect(await textOf(cache, "a")).toBe("right");
  });

  test("an object that changes between the two calls is given in its new version", async () => {
    const store = createMemoryBackend({ a: "old" });
    const cache = withCache(
      wrapBackend(store, {
        describe: (inner) => async (key, call) => {
          const info = await inner(key, call);
          store.put("a", "newer");
          return info;
        },
      }),
    );
    expect(await textOf(cache, "a")).toBe("newer");
    const { etag } = await createMemoryBackend({ a: "old" }).describe("a");
    store.put("a", "old");
    const stale = cache.open("a", { ifMatch: etag! }).catch((reason: unknown) => reason);
    expect(await stale).toMatchObject({ code: "precondition_failed" });
  });

  test.each([
    [{ maxBytes: 0 }],
    [{ maxBytes: 1.5 }],
    [{ maxObjectBytes: 0 }],
    [{ maxBytes: 2_000, maxObjectBytes: 1_000 }],
    [{ maxAgeMs: -1 }],
    [{ maxAgeMs: Number.NaN }],
  ])("settings that cannot work are refused: %j", (options) => {
    expect(() => withCache(createMemoryBackend(), options)).toThrow(RangeError);
  });
});
