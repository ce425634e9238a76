import { SluiceError } from "@sluice/core";
import {
  createMemoryBackend,
  type ChangeBatch,
  type StorageBackend,
  wrapBackend,
} from "@sluice/storage";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  createChangeHub,
  type ChangeListener,
  type ObjectChanges,
} from "../src/changes/change-hub.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Lets everything run that is not waiting for a timer, and timers up to this many milliseconds. */
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

interface Heard extends ChangeListener {
  readonly heard: ObjectChanges[];
}

function listener(options: Partial<ChangeListener> = {}): Heard {
  const heard: ObjectChanges[] = [];
  return { hearsList: false, ...options, heard, onChanges: (changes) => void heard.push(changes) };
}

/** A backend whose watches are held by the test. */
function watched(options: { watch?: StorageBackend["watch"] } = {}) {
  const memory = createMemoryBackend({ a: "1", b: "1" });
  let watches = 0;
  let open = 0;
  const backend = wrapBackend(memory, {
    watch: (watch) =>
      async function* (watchOptions) {
        watches++;
        open++;
        try {
          yield* (options.watch ?? watch)(watchOptions);
        } finally {
          open--;
        }
      },
  });
  return { memory, backend, watches: () => watches, open: () => open };
}

function hubOf(backend: StorageBackend) {
  const errors: unknown[] = [];
  const hub = createChangeHub(backend, { onError: (error) => void errors.push(error) });
  const follow = async (who: ChangeListener, key: string): Promise<void> =>
    hub.follow(who, await backend.describe(key));
  return { hub, errors, follow };
}

describe("a hub", () => {
  test("tells each follower of its objects only, once for a burst", async () => {
    const { memory, backend } = watched();
    const { follow } = hubOf(backend);
    const [one, two] = [listener(), listener()];
    await follow(one, "a");
    await follow(two, "b");
    await pass(0);
    for (let n = 0; n < 50; n++) memory.put("a", String(n));
    await pass(1_000);
    expect(one.heard).toEqual([{ updated: ["a"], listed: [] }]);
    expect(two.heard).toEqual([]);
    await memory.remove("b");
    await pass(1_000);
    expect(two.heard).toEqual([{ updated: ["b"], listed: [] }]);
  });

  test("holds one watch for all listeners, none before the first and none after the last", async () => {
    const { backend, watches, open } = watched();
    const { hub, follow } = hubOf(backend);
    expect(watches()).toBe(0);
    const listeners = Array.from({ length: 100 }, () => listener());
    for (const each of listeners) await follow(each, "a");
    await pass(0);
    expect([watches(), open()]).toEqual([1, 1]);
    for (const each of listeners.slice(0, 50)) hub.leave(each);
    for (const each of listeners.slice(50)) hub.unfollow(each, "a");
    await pass(0);
    expect(open()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
    await follow(listeners[0]!, "a");
    await pass(0);
    expect([watches(), open()]).toEqual([2, 1]);
    hub.leave(listeners[0]!);
  });

  test("says that the list changed when objects come or go, not when one is written again", async () => {
    const { memory, backend } = watched();
    const { hub, follow } = hubOf(backend);
    const lists = listener({ hearsList: true });
    hub.join(lists);
    await follow(lists, "a");
    await pass(0);
    memory.put("a", "2");
    await pass(1_000);
    memory.put("new", "1");
    await pass(1_000);
    memory.put("new", "2");
    await pass(1_000);
    await memory.remove("new");
    await pass(1_000);
    expect(lists.heard).toEqual([
      { updated: ["a"], listed: [] },
      { updated: [], listed: ["new"] },
      { updated: [], listed: ["new"] },
    ]);
  });

  test("a subscriber to everything is notified of every key", async () => {
    const { memory, backend } = watched();
    const { hub } = hubOf(backend);
    const all = listener({ hearsAll: true });
    hub.join(all);
    await pass(0);
    memory.put("a", "2");
    memory.put("c", "1");
    await pass(1_000);
    expect(all.heard).toEqual([{ updated: ["a", "c"], listed: [] }]);
  });

  test("looks at every followed object after a reset, and tells of those that changed", async () => {
    let emit!: (batch: ChangeBatch) => void;
    const { memory, backend } = watched({
      watch: async function* () {
        yield {};
        for (;;) yield await new Promise<ChangeBatch>((resolve) => (emit = resolve));
      },
    });
    const { hub, follow } = hubOf(backend);
    const who = listener({ hearsList: true });
    await follow(who, "a");
    await follow(who, "b");
    await pass(0);
    memory.put("b", "2");
    emit({ reset: true });
    await pass(1_000);
    expect(who.heard).toEqual([
      { updated: [], listed: "unknown" },
      { updated: ["b"], listed: [] },
    ]);
    hub.leave(who);
  });

  test("begins again when a watch breaks, and misses nothing in between", async () => {
    const endings: ((error: Error) => void)[] = [];
    const { memory, backend, watches } = watched({
      watch: async function* () {
        yield {};
        await new Promise((_, reject) => endings.push(reject));
      },
    });
    const { hub, errors, follow } = hubOf(backend);
    const who = listener();
    await follow(who, "a");
    await pass(0);
    endings[0]!(new SluiceError("unavailable", "memory: watch: broke"));
    await pass(0);
    memory.put("a", "2");
    await pass(60_000);
    expect(watches()).toBe(2);
    expect(who.heard).toEqual([{ updated: ["a"], listed: [] }]);
    expect(errors).toHaveLength(1);
    hub.leave(who);
  });

  test("tells that the list may be another one after a watch broke, within a second", async () => {
    const endings: ((error: Error) => void)[] = [];
    const { memory, backend } = watched({
      watch: async function* () {
        yield {};
        await new Promise((_, reject) => endings.push(reject));
      },
    });
    const { hub } = hubOf(backend);
    const who = listener({ hearsList: true });
    hub.join(who);
    await pass(0);
    endings[0]!(new SluiceError("unavailable", "memory: watch: broke"));
    await pass(0);
    memory.put("new", "1");
    expect(who.heard).toEqual([]);
    await pass(1_000);
    expect(who.heard).toEqual([{ updated: [], listed: "unknown" }]);
    hub.leave(who);
  });

  test("looks now and then where storage has no watch, or refuses one", async () => {
    for (const refuses of [false, true]) {
      const { memory, backend, watches } = watched({
        // oxlint-disable-next-line require-yield -- it fails before
        watch: async function* () {
          throw new SluiceError("too_large", "memory: watch: too many");
        },
      });
      const blind = { ...backend };
      if (!refuses) delete blind.watch;
      const { hub, follow } = hubOf(blind);
      const who = listener();
      await follow(who, "a");
      await pass(29_000);
      memory.put("a", "2");
      expect(who.heard).toEqual([]);
      await pass(2_000);
      expect(who.heard).toEqual([{ updated: ["a"], listed: [] }]);
      await memory.remove("a");
      await pass(31_000);
      expect(who.heard).toHaveLength(2);
      await pass(120_000);
      expect(who.heard).toHaveLength(2);
      expect(watches()).toBe(refuses ? 1 : 0);
      hub.leave(who);
      await pass(0);
      expect(vi.getTimerCount()).toBe(0);
    }
  });

  test("a watch that ends at once is not begun in a loop", async () => {
    const { backend, watches } = watched({
      watch: async function* () {
        yield {};
      },
    });
    const { hub, follow } = hubOf(backend);
    const who = listener();
    await follow(who, "a");
    await pass(60_000);
    expect(watches()).toBeLessThan(300);
    hub.leave(who);
  });

  test("does not follow more than 100,000 objects", { tags: "slow" }, async () => {
    const { backend } = watched();
    const { hub } = hubOf(backend);
    const who = listener();
    for (let n = 0; n < 100_000; n++) hub.follow(who, { key: String(n) });
    expect(() => hub.follow(who, { key: "one more" })).toThrow(
      expect.objectContaining({ code: "throttled" }),
    );
    hub.leave(who);
    hub.follow(who, { key: "one more" });
    hub.leave(who);
  });
});
