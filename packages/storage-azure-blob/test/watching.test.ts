import type { ChangeBatch } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { clientFor } from "./azurite.ts";
import { blobEvent, createMemoryQueue, type MemoryQueue, nextSequencer } from "./event-queue.ts";

const client = clientFor("http://127.0.0.1:9/account/docs");
let queue: MemoryQueue;
let caller: AbortController;
beforeEach(() => {
  queue = createMemoryQueue();
  caller = new AbortController();
});
afterEach(() => caller.abort());

/** Starts a watch that is armed. */
async function watch(options: { prefix?: string } = {}): Promise<AsyncIterator<ChangeBatch>> {
  const backend = createAzureBlobBackend({ client, events: queue, pollIntervalMs: 2, ...options });
  const batches = backend.watch!({ signal: caller.signal })[Symbol.asyncIterator]();
  expect(Object.keys((await batches.next()).value as object)).toEqual(["cursor"]);
  return batches;
}

/** Everything that is reported until a marker that is put last. */
async function told(
  batches: AsyncIterator<ChangeBatch>,
  root = "",
): Promise<Omit<ChangeBatch, "cursor">[]> {
  queue.put(blobEvent("BlobCreated", "docs", `${root}the end`));
  const all = [];
  for (;;) {
    const { cursor: _, ...batch } = (await batches.next()).value as ChangeBatch;
    all.push(batch);
    if (batch.changed?.includes("the end") || batch.reset) return all;
  }
}

const changes = (batches: readonly ChangeBatch[]) => ({
  changed: [...new Set(batches.flatMap(({ changed = [] }) => changed))].filter(
    (key) => key !== "the end",
  ),
  removed: [...new Set(batches.flatMap(({ removed = [] }) => removed))],
});

describe("events", () => {
  test("created and deleted blobs are reported, and their messages deleted", async () => {
    const batches = await watch();
    queue.put(blobEvent("BlobCreated", "docs", "a b/ü+%20.txt"));
    queue.put(blobEvent("BlobDeleted", "docs", "old.txt"));
    expect(changes(await told(batches))).toEqual({
      changed: ["a b/ü+%20.txt"],
      removed: ["old.txt"],
    });
    await expect.poll(() => queue.count()).toBe(0);
  });

  test("CloudEvents, plain JSON and arrays of events are also understood", async () => {
    const batches = await watch();
    const { eventType, ...rest } = blobEvent("BlobCreated", "docs", "cloud.txt") as {
      eventType: string;
    };
    queue.put({ ...rest, type: eventType, specversion: "1.0" });
    queue.putText(
      JSON.stringify([
        blobEvent("BlobCreated", "docs", "1"),
        blobEvent("BlobCreated", "docs", "2"),
      ]),
    );
    expect(changes(await told(batches)).changed).toEqual(["cloud.txt", "1", "2"]);
  });

  test("other containers, other folders and other events are not reported", async () => {
    const batches = await watch({ prefix: "in" });
    for (const [type, container, name] of [
      ["BlobCreated", "docs-old", "in/a"],
      ["BlobCreated", "docs", "in-between/a"],
      ["BlobCreated", "docs", "in/folder/"],
      ["BlobTierChanged", "docs", "in/a"],
      ["DirectoryDeleted", "docs", "out"],
    ] as const)
      queue.put(blobEvent(type, container, name));
    queue.put({
      eventType: "Microsoft.EventGrid.SubscriptionValidationEvent",
      subject: "",
      data: {},
    });
    queue.put(blobEvent("BlobCreated", "docs", "in/b"));
    expect(changes(await told(batches, "in/"))).toEqual({ changed: ["b"], removed: [] });
  });

  test("a repeated event is reported once, and one that is too late not at all", async () => {
    const batches = await watch();
    const older = { sequencer: nextSequencer() };
    const newer = { sequencer: nextSequencer() };
    const event = blobEvent("BlobCreated", "docs", "a", newer);
    queue.put(event);
    expect(changes(await told(batches)).changed).toEqual(["a"]);
    queue.put(event);
    queue.put(blobEvent("BlobDeleted", "docs", "a", older));
    expect(changes(await told(batches))).toEqual({ changed: [], removed: [] });
    queue.put(blobEvent("BlobDeleted", "docs", "a"));
    expect(changes(await told(batches)).removed).toEqual(["a"]);
  });

  test("a renamed blob is gone there and new here", async () => {
    const batches = await watch();
    const sourceUrl = "https://account.dfs.core.windows.net/docs/a%20b.txt";
    queue.put(blobEvent("BlobRenamed", "docs", "c.txt", { sourceUrl }));
    expect(changes(await told(batches))).toEqual({ changed: ["c.txt"], removed: ["a b.txt"] });
  });
});

describe("reset", () => {
  test.each([
    ["a message that is not an event", () => queue.putText("bm90IGpzb24=")],
    ["a renamed folder", () => queue.put(blobEvent("DirectoryRenamed", "docs", "folder"))],
    ["a deleted folder", () => queue.put(blobEvent("DirectoryDeleted", "docs", "folder"))],
    [
      "a name that Event Grid garbled",
      () => queue.put(blobEvent("BlobCreated", "docs", "a\ufffd\ufffd.log")),
    ],
    [
      "a rename from nobody knows where",
      () => queue.put(blobEvent("BlobRenamed", "docs", "c.txt")),
    ],
  ])("%s may have been any change", async (_, put) => {
    const batches = await watch();
    put();
    expect(await told(batches)).toContainEqual({ reset: true });
    await expect.poll(() => queue.count()).toBeLessThanOrEqual(1);
  });
});

describe("the queue", () => {
  test("has one reader for all watches, and none without a watch", async () => {
    let reads = 0;
    const counted = {
      ...queue,
      receiveMessages: async (options: Parameters<MemoryQueue["receiveMessages"]>[0]) => {
        reads++;
        return queue.receiveMessages(options);
      },
    };
    const backend = createAzureBlobBackend({ client, events: counted, pollIntervalMs: 1 });
    expect(reads).toBe(0);
    const { signal } = caller;
    const watches = [1, 2].map(() => backend.watch!({ signal })[Symbol.asyncIterator]());
    for (const batches of watches) await batches.next();
    queue.put(blobEvent("BlobCreated", "docs", "a"));
    for (const batches of watches)
      expect(((await batches.next()).value as ChangeBatch).changed).toEqual(["a"]);
    caller.abort();
    for (const batches of watches) expect((await batches.next()).done).toBe(true);
    const before = reads;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(reads).toBe(before);
  });

  test("loses nothing while it is down", async () => {
    let failures = 3;
    const up = queue;
    queue = {
      ...up,
      async receiveMessages(options) {
        if (failures-- > 0)
          throw Object.assign(new Error("down"), { statusCode: 503, code: "ServerBusy" });
        return up.receiveMessages(options);
      },
    };
    const batches = await watch();
    queue.put(blobEvent("BlobCreated", "docs", "a"));
    expect(changes(await told(batches)).changed).toEqual(["a"]);
  });

  test("is not asked again and again when it asks for a pause of many years", async () => {
    const warnings: string[] = [];
    const onWarning = ({ name }: Error): void => void warnings.push(name);
    process.on("warning", onWarning);
    let reads = 0;
    queue.receiveMessages = async () => {
      reads++;
      const headers = {
        get: (name: string) => (name === "retry-after" ? "9999999999" : undefined),
      };
      throw Object.assign(new Error("busy"), { statusCode: 503, response: { headers } });
    };
    await watch();
    await expect.poll(() => reads).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    expect([reads, warnings]).toEqual([1, []]);
    process.off("warning", onWarning);
  });

  test("ends the watch with an error when it may not be read", async () => {
    queue.receiveMessages = async () => {
      throw Object.assign(new Error("?sig=secret"), {
        statusCode: 403,
        code: "AuthorizationFailure",
      });
    };
    const backend = createAzureBlobBackend({ client, events: queue, pollIntervalMs: 1 });
    const batches = backend.watch!({ signal: caller.signal })[Symbol.asyncIterator]();
    await batches.next();
    await expect(batches.next()).rejects.toMatchObject({
      code: "permission_denied",
      message: "azure-blob: watch: the credentials do not allow that (AuthorizationFailure)",
    });
  });

  test("keeps a message that could not be deleted, which is then reported once", async () => {
    const willing = queue;
    let refused = 2;
    queue = {
      ...willing,
      async deleteMessage(...given) {
        if (refused-- > 0) throw new Error("PopReceiptMismatch");
        return willing.deleteMessage(...given);
      },
    };
    const batches = await watch();
    queue.put(blobEvent("BlobCreated", "docs", "a"));
    const all = await told(batches);
    expect(all.flatMap(({ changed = [] }) => changed).filter((key) => key === "a")).toHaveLength(1);
    await expect.poll(() => queue.count()).toBe(0);
  });
});

test("without `events` there is no watch, and without `writable` no write", () => {
  const backend = createAzureBlobBackend({ client });
  expect(backend).not.toHaveProperty("watch");
  expect(backend).not.toHaveProperty("write");
});
