import { shareChanges } from "@sluice/state-redis/internal";
import {
  createMemoryBackend,
  wrapBackend,
  type ChangeBatch,
  type StorageBackend,
} from "@sluice/storage";
import { checkRule, conformanceRules, type Fixture } from "@sluice/storage/conformance";
import { describe, expect, test } from "vitest";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

describe.runIf(hasRedis)("changes that processes share", () => {
  const bed = useRedis();
  let names = 0;

  const share = (backend: StorageBackend, name: string): StorageBackend =>
    shareChanges(backend, { redis: bed.redis, timeoutMs: 500 }, { name, pollIntervalMs: 10 });

  function createFixture(): Fixture {
    const store = createMemoryBackend();
    const name = `rule ${(names += 1)}`;
    return {
      backend: share(store, name),
      put: async (key, content) => void store.put(key, content),
      remove: (key) => store.remove(key),
      reopen: async () => share(store, name),
    };
  }

  test.each(conformanceRules.filter(({ id }) => id.startsWith("watch-")))(
    "$id: $sentence",
    async (rule) => {
      const finding = await checkRule(rule, createFixture, { deadlineMs: 50_000 });
      expect(finding).toMatchObject({ outcome: expect.stringMatching(/^(kept|absent)$/) });
    },
  );

  /** Two processes of one queue: a change that one of them gets, the other does not. */
  function createQueue(): { backends: [StorageBackend, StorageBackend]; send: Send } {
    const heard: ((batch: ChangeBatch) => void)[] = [];
    const backends = [0, 1].map((n) =>
      wrapBackend(createMemoryBackend(), {
        watch: () =>
          async function* ({ signal }) {
            const batches: ChangeBatch[] = [{}];
            let wake = (): void => {};
            heard[n] = (batch) => (batches.push(batch), wake());
            signal.addEventListener("abort", () => wake());
            while (!signal.aborted) {
              const batch = batches.shift();
              if (batch) yield batch;
              else await new Promise<void>((resolve) => (wake = resolve));
            }
          },
      }),
    ) as [StorageBackend, StorageBackend];
    return { backends, send: (to, key) => heard[to]!({ changed: [key] }) };
  }
  type Send = (to: number, key: string) => void;

  /** Watches, armed, and gives the changes, key by key. */
  async function watch(backend: StorageBackend, signal: AbortSignal) {
    const batches = backend.watch!({ signal })[Symbol.asyncIterator]();
    await batches.next();
    return async (): Promise<readonly string[]> => (await batches.next()).value?.changed ?? [];
  }

  test("changes that one process gets reach all of them, once each", async () => {
    const { backends, send } = createQueue();
    const over = new AbortController();
    const [one, two] = await Promise.all(
      backends.map((backend) => watch(share(backend, "queue"), over.signal)),
    );
    send(0, "a");
    expect([await one!(), await two!()]).toEqual([["a"], ["a"]]);
    send(1, "b");
    expect([await one!(), await two!()]).toEqual([["b"], ["b"]]);
    over.abort();
    expect([await one!(), await two!()]).toEqual([[], []]);
  });

  test("negative control: backends of other names get nothing of each other", async () => {
    const { backends, send } = createQueue();
    const over = new AbortController();
    const one = await watch(share(backends[0], "one name"), over.signal);
    const two = await watch(share(backends[1], "another"), over.signal);
    send(0, "a");
    expect(await one()).toEqual(["a"]);
    const nothing = two();
    over.abort();
    expect(await nothing).toEqual([]);
  });

  test("a reader that is so slow that changes were forgotten learns that it missed some", async () => {
    const { backends, send } = createQueue();
    const over = new AbortController();
    const batches = share(backends[0], "slow").watch!({ signal: over.signal })[
      Symbol.asyncIterator
    ]();
    await batches.next();
    send(0, "a");
    expect((await batches.next()).value).toMatchObject({ changed: ["a"] });
    const key = "{sluice}:1:changes:slow";
    for (let n = 0; n < 120; n++) await bed.redis.xadd(key, "*", "batch", '{"changed":["b"]}');
    await bed.redis.xtrim(key, "MAXLEN", 110);
    expect((await batches.next()).value).toMatchObject({ reset: true });
    send(0, "c");
    expect((await batches.next()).value).toMatchObject({ changed: ["c"] });
    over.abort();
    await batches.return!(undefined);
  });

  test("a Redis that forgot changes, between two looks at it, is a reset", async () => {
    const { backends, send } = createQueue();
    const over = new AbortController();
    const batches = share(backends[0], "forgotten").watch!({ signal: over.signal })[
      Symbol.asyncIterator
    ]();
    await batches.next();
    send(0, "a");
    expect((await batches.next()).value).toMatchObject({ changed: ["a"] });
    // earlier changes of the other process are gone as well, and no process can name them
    await bed.redis.del("{sluice}:1:changes:forgotten");
    expect((await batches.next()).value).toMatchObject({ reset: true });
    send(0, "b");
    expect((await batches.next()).value).toMatchObject({ changed: ["b"] });
    over.abort();
    await batches.return!(undefined);
  });

  test("a watch ends with unavailable while Redis does not answer", async () => {
    const { backends } = createQueue();
    const over = new AbortController();
    const next = await watch(share(backends[0], "frozen"), over.signal);
    bed.server.freeze();
    try {
      await expect(next()).rejects.toMatchObject({ code: "unavailable", retryable: true });
    } finally {
      bed.server.thaw();
    }
  });
});
