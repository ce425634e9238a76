import type { ChangeBatch } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createBucket } from "./bucket.ts";
import { createEventQueue } from "./event-queue.ts";

interface Record {
  readonly key: string;
  readonly eventName?: string;
  readonly sequencer?: string;
  readonly bucket?: string;
  readonly versionId?: string;
}

function notification(...records: Record[]): string {
  return JSON.stringify({
    Records: records.map(({ eventName = "ObjectCreated:Put", bucket = "bucket", ...object }) => ({
      eventName,
      s3: { bucket: { name: bucket }, object },
    })),
  });
}

/** The batches of a watch for these messages, up to the change of the key "end". */
async function changesOf(...messages: string[]): Promise<ChangeBatch> {
  const events = createEventQueue();
  await using bucket = await createBucket({ events, prefix: "in" });
  const caller = new AbortController();
  const all = { changed: [] as string[], removed: [] as string[], reset: false };
  for (const message of messages) events.push(message);
  events.push(notification({ key: "in/end" }));
  for await (const batch of bucket.backend.watch!({ signal: caller.signal })) {
    all.changed.push(...(batch.changed ?? []));
    all.removed.push(...(batch.removed ?? []));
    all.reset ||= batch.reset === true;
    if (batch.reset || all.changed.includes("end")) caller.abort();
  }
  const { changed, removed, reset } = all;
  return {
    changed: changed.filter((key) => key !== "end"),
    removed,
    ...(reset && { reset }),
  };
}

describe("an event", () => {
  test("names its key as in a form: a plus is a space", async () => {
    const { changed } = await changesOf(
      notification({ key: "in/red+flower.jpg" }, { key: "in/%C3%BC%2B%25.txt" }),
    );
    expect(changed).toEqual(["red flower.jpg", "ü+%.txt"]);
  });

  test("is one of this bucket, below the root, about a legal key", async () => {
    const { changed, removed } = await changesOf(
      notification(
        { key: "in/a", bucket: "another" },
        { key: "inside/b" },
        { key: "c" },
        { key: "in/folder/" },
        { key: "in/d", eventName: "ObjectTagging:Put" },
      ),
    );
    expect([changed, removed]).toEqual([[], []]);
  });

  test("removes, but of one version only perhaps", async () => {
    const { changed, removed } = await changesOf(
      notification(
        { key: "in/a", eventName: "ObjectRemoved:Delete" },
        { key: "in/b", eventName: "ObjectRemoved:DeleteMarkerCreated", versionId: "1" },
        { key: "in/c", eventName: "s3:LifecycleExpiration:Delete" },
        { key: "in/d", eventName: "ObjectRemoved:Delete", versionId: "2" },
      ),
    );
    expect([changed, removed]).toEqual([["d"], ["a", "b", "c"]]);
  });

  test("does not undo a newer one if late or repeated; sequencers differ in length", async () => {
    const { changed, removed } = await changesOf(
      notification({ key: "in/a", sequencer: "0055AED6DCD90282" }),
      notification({
        key: "in/a",
        sequencer: "0055AED6DCD902811",
        eventName: "ObjectRemoved:Delete",
      }),
      notification({ key: "in/b", sequencer: "0A" }),
      notification({ key: "in/b", sequencer: "0A1", eventName: "ObjectRemoved:Delete" }),
    );
    expect([changed, removed]).toEqual([["a"], ["b"]]);
  });

  test("may come in an envelope of SNS, and the first message is a test", async () => {
    const { changed } = await changesOf(
      JSON.stringify({ Service: "Amazon S3", Event: "s3:TestEvent", Bucket: "bucket" }),
      JSON.stringify({ Type: "Notification", Message: notification({ key: "in/a" }) }),
    );
    expect(changed).toEqual(["a"]);
  });

  const bucket = { name: "bucket" };
  const numbers = [
    { key: "in/a", sequencer: 1 },
    { key: 1, sequencer: "1" },
  ].map((object) =>
    JSON.stringify({ Records: [{ eventName: "ObjectCreated:Put", s3: { bucket, object } }] }),
  );
  test.each([
    "no JSON",
    "null",
    "{}",
    '{"Records":1}',
    '{"Records":[null]}',
    '{"Records":[{"s3":null}]}',
    ...numbers,
    notification({ key: "in/%ff" }),
  ])("is a reset when it cannot be understood (%s)", async (message) => {
    expect((await changesOf(message)).reset).toBe(true);
  });
});

describe("the queue", () => {
  test("keeps messages until their changes were handed on", async () => {
    const events = createEventQueue();
    await using bucket = await createBucket({ events });
    const caller = new AbortController();
    const watching = bucket.backend.watch!({ signal: caller.signal })[Symbol.asyncIterator]();
    events.push(notification({ key: "a" }));
    expect(events.count()).toBe(1);
    await watching.next();
    expect((await watching.next()).value?.changed).toEqual(["a"]);
    await expect.poll(() => events.count()).toBe(0);
    caller.abort();
    await watching.return?.();
  });

  test("is not read without a watch, so that a watch resumes where the last one stopped", async () => {
    const events = createEventQueue();
    await using bucket = await createBucket({ events });
    const first = new AbortController();
    let cursor = "";
    for await (const batch of bucket.backend.watch!({ signal: first.signal })) {
      cursor = batch.cursor ?? "";
      first.abort();
    }
    events.push(notification({ key: "meanwhile" }));
    const second = new AbortController();
    const batches: ChangeBatch[] = [];
    for await (const batch of bucket.backend.watch!({ cursor, signal: second.signal })) {
      batches.push(batch);
      if (batch.changed?.length) second.abort();
    }
    expect(batches.map(({ changed, reset }) => [changed, reset])).toEqual([
      [undefined, undefined],
      [["meanwhile"], undefined],
    ]);
  });

  test("ends every watch with an error when it fails, and can be tried again", async () => {
    const events = createEventQueue();
    let fails = true;
    const cause = new Error("no network");
    await using bucket = await createBucket({
      events: {
        ...events,
        receive: (options) => (fails ? Promise.reject(cause) : events.receive(options)),
      },
    });
    const caller = new AbortController();
    const follow = async () => {
      for await (const { changed } of bucket.backend.watch!({ signal: caller.signal }))
        if (changed?.includes("a")) caller.abort();
    };
    for (const watching of [follow(), follow()])
      await expect(watching).rejects.toMatchObject({ code: "unavailable", cause });
    fails = false;
    events.push(notification({ key: "a" }));
    await expect(follow()).resolves.toBeUndefined();
  });

  test("reports its failure to a watch that looks late, even when another has begun again", async () => {
    const events = createEventQueue();
    let fails = true;
    await using bucket = await createBucket({
      events: {
        ...events,
        receive: (options) => (fails ? Promise.reject(new Error()) : events.receive(options)),
      },
    });
    const caller = new AbortController();
    const start = () => bucket.backend.watch!({ signal: caller.signal })[Symbol.asyncIterator]();
    const late = start();
    const early = start();
    for (const watching of [late, early]) await watching.next();
    await expect(early.next()).rejects.toMatchObject({ code: "unavailable" });
    fails = false;
    await start().next();
    await expect(late.next()).rejects.toMatchObject({ code: "unavailable" });
    caller.abort();
  });

  test("is no longer read when the backend is closed, even while no batch is taken", async () => {
    let waiting = 0;
    const bucket = await createBucket({
      events: {
        receive({ signal }) {
          waiting++;
          return new Promise((resolve) => {
            signal.addEventListener("abort", () => {
              waiting--;
              resolve([]);
            });
          });
        },
        ack: async () => {},
      },
    });
    const { signal } = new AbortController();
    const watching = bucket.backend.watch!({ signal })[Symbol.asyncIterator]();
    await watching.next();
    expect(waiting).toBe(1);
    await bucket[Symbol.asyncDispose]();
    expect(waiting).toBe(0);
    expect((await watching.next()).done).toBe(true);
  });
});
