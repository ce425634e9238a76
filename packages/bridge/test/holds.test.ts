import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createMemoryHold,
  createStorageHold,
  type HoldShare,
  type ResultHold,
} from "@sluice/bridge";
import { createMemoryBackend, createUriMapper, wrapBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";

const minute = 60_000;
const quarter = 15 * minute;

afterEach(() => void vi.useRealTimers());

/** Keys of `held://results/…`. */
function keyOf(uri: string): string {
  return createUriMapper("held://results/").toKey(uri);
}

/** A hold and the share of one session of it. */
type SharedHold = ResultHold & Pick<HoldShare, "create">;

function sharing(results: ResultHold): SharedHold {
  const share = results.openShare();
  return { ...results, create: () => share.create() };
}

async function hold(
  target: Pick<HoldShare, "create">,
  content: string | Uint8Array,
  name = "a.txt",
) {
  const part = await target.create();
  const bytes = Buffer.from(content);
  // as the network cuts it
  for (let at = 0; at < bytes.length; at += 50_001)
    await part.write(bytes.subarray(at, at + 50_001));
  const sha256 = await part.seal();
  return { uri: await part.publish(name), sha256, part };
}

async function read(target: ResultHold, uri: string): Promise<Buffer> {
  const { body } = await target.storage.open(keyOf(uri));
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function isGone(target: ResultHold, uri: string): Promise<boolean> {
  return target.storage.describe(keyOf(uri)).then(
    () => false,
    () => true,
  );
}

/** A hold of each kind that ends with the test. */
function opened(kind: "memory" | "storage", options: object = {}): SharedHold {
  const storage = createMemoryBackend();
  const made =
    kind === "memory" ? createMemoryHold(options) : createStorageHold({ storage, ...options });
  onTestFinished(() => made.close());
  return sharing(made);
}

const kinds = ["memory", "storage"] as const;

for (const kind of kinds) {
  test(`${kind}: a result that takes too long to come leaves its room to others`, async () => {
    vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval", "performance"] });
    const held = opened(kind, { maxBytes: 200_000 });
    const stalled = await held.create();
    await stalled.write(Buffer.alloc(150_000));
    await expect(hold(held, Buffer.alloc(100_000))).rejects.toMatchObject({ code: "no_space" });
    await vi.advanceTimersByTimeAsync(quarter + minute);
    await hold(held, Buffer.alloc(100_000));
    // what still comes of it is refused, and counts for nothing
    await expect(stalled.write(Buffer.alloc(90_000))).rejects.toMatchObject({
      code: "unavailable",
    });
    await hold(held, Buffer.alloc(50_000));
  });

  test(`${kind}: what was written is read again, under an unguessable URI with its name`, async () => {
    const held = opened(kind);
    const content = randomBytes(3_000_000);
    const { uri, sha256 } = await hold(held, content, "größe 1.pdf");
    expect(uri).toMatch(/^held:\/\/results\/\d{13}-[0-9a-f]{32}\/gr%C3%B6%C3%9Fe%201\.pdf$/);
    expect((await read(held, uri)).equals(content)).toBe(true);
    expect(sha256).toBe(createHash("sha256").update(content).digest("hex"));
    const info = await held.storage.describe(keyOf(uri));
    expect(info).toMatchObject({ size: content.length, key: keyOf(uri) });
    const range = await held.storage.open(keyOf(uri), {
      range: { start: 2_000_000, end: 2_000_010 },
    });
    const { value: chunk } = await range.body.getReader().read();
    expect(Buffer.from(chunk!).equals(content.subarray(2_000_000, 2_000_010))).toBe(true);
  });

  test(`${kind}: nothing is there before it has a name`, async () => {
    const held = opened(kind);
    const part = await held.create();
    await part.write(Buffer.from("secret"));
    expect((await held.storage.list()).objects).toEqual([]);
    await part.discard();
    await expect(part.write(Buffer.from("more"))).rejects.toMatchObject({ code: "unavailable" });
    expect((await held.storage.list()).objects).toEqual([]);
  });

  test(`${kind}: a result that has no room fails, and one that is removed makes some`, async () => {
    const held = opened(kind, { maxBytes: 300_000 });
    const first = await hold(held, Buffer.alloc(200_000));
    await expect(hold(held, Buffer.alloc(200_000))).rejects.toMatchObject({
      code: "no_space",
      message: expect.stringContaining(kind === "memory" ? "--results-to" : "--max-held"),
    });
    expect((await read(held, first.uri)).length).toBe(200_000);
    await held.close();
    const other = opened(kind, { maxBytes: 300_000 });
    const again = await hold(other, Buffer.alloc(200_000));
    await other.drop(again.uri);
    await hold(other, Buffer.alloc(200_000));
  });

  test(`${kind}: close removes what is held and what is on its way`, async () => {
    const held = opened(kind);
    const { uri } = await hold(held, "a");
    const part = await held.create();
    await part.write(Buffer.alloc(100_000));
    await held.close();
    expect(await isGone(held, uri)).toBe(true);
    await expect(held.create()).rejects.toMatchObject({ code: "unavailable" });
  });
}

test.each(kinds)(
  "%s: a result without a link goes after a minute, one with a link at its time",
  async (kind) => {
    vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"] });
    const held = opened(kind, { maxAgeMs: 2 * minute });
    const without = await hold(held, "a");
    const short = await hold(held, "b");
    held.keep(short.uri, Date.now() + minute);
    const long = await hold(held, "c");
    held.keep(long.uri, Date.now() + 10 * minute);
    const gone = async () =>
      Promise.all([without, short, long].map(({ uri }) => isGone(held, uri)));
    expect(await gone()).toEqual([false, false, false]);
    await vi.advanceTimersByTimeAsync(minute + 1);
    expect(await gone()).toEqual([true, false, false]);
    await vi.advanceTimersByTimeAsync(2 * minute);
    expect(await gone()).toEqual([true, true, false]);
    // no timer: a write removes it
    vi.setSystemTime(Date.now() + 10 * minute);
    await hold(held, "d");
    expect(await gone()).toEqual([true, true, true]);
  },
);

test("memory counts what is still read", async () => {
  const held = sharing(createMemoryHold({ maxBytes: 600_000 }));
  const first = await hold(held, Buffer.alloc(300_000, 1));
  const { body } = await held.storage.open(keyOf(first.uri));
  const reader = body.getReader();
  await reader.read();
  await held.drop(first.uri);
  expect(await isGone(held, first.uri)).toBe(true);
  await expect(hold(held, Buffer.alloc(300_000))).rejects.toMatchObject({ code: "no_space" });
  // the reader gets all of it
  let bytes = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read())
    bytes += part.value.filter((byte) => byte === 1).length;
  expect(bytes).toBeGreaterThan(0);
  await hold(held, Buffer.alloc(300_000));
  await held.close();
});

test("a storage is shared: each process counts the results of all, and removes what ended ones left", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval", "performance"] });
  const storage = createMemoryBackend({
    "held/notes.txt": "of another",
    "other.txt": "of another",
  });
  const ended = sharing(createStorageHold({ storage, maxBytes: 1_000 }));
  const left = await hold(ended, Buffer.alloc(600));
  ended.keep(left.uri, Date.now() + quarter);
  // its timers are over with its process
  vi.clearAllTimers();
  const running = sharing(createStorageHold({ storage, maxBytes: 1_000 }));
  onTestFinished(() => running.close());
  await expect(hold(running, Buffer.alloc(600))).rejects.toMatchObject({ code: "no_space" });
  expect((await read(running, left.uri)).length).toBe(600);
  await vi.advanceTimersByTimeAsync(29 * minute);
  expect(await isGone(running, left.uri)).toBe(false);
  await vi.advanceTimersByTimeAsync(3 * minute);
  expect(await isGone(running, left.uri)).toBe(true);
  await hold(running, Buffer.alloc(600));
  // other files in that folder are not ours
  expect((await storage.describe("held/notes.txt")).size).toBe(10);
  expect((await storage.describe("other.txt")).size).toBe(10);
});

test("negative control: a storage that lists nothing hides the files of others", async () => {
  const storage = createMemoryBackend();
  const first = sharing(createStorageHold({ storage, maxBytes: 1_000 }));
  await hold(first, Buffer.alloc(600));
  const blind = wrapBackend(storage, { list: () => async () => ({ objects: [] }) });
  const second = sharing(createStorageHold({ storage: blind, maxBytes: 1_000 }));
  expect((await hold(second, Buffer.alloc(600))).uri).toMatch(/^held:/);
  await Promise.all([first.close(), second.close()]);
});

test("a fault of the storage is told without its words, and nothing stays", async () => {
  const faults: unknown[] = [];
  const inner = createMemoryBackend();
  const broken = wrapBackend(inner, {
    write: (write) => async (key, options) => {
      const writer = await write(key, options);
      return {
        ...writer,
        write: async () => {
          throw new Error("bucket acme-secret refused");
        },
      };
    },
  });
  const held = sharing(
    createStorageHold({ storage: broken, onError: (error) => faults.push(error) }),
  );
  const failing = hold(held, Buffer.alloc(100_000));
  await expect(failing).rejects.toMatchObject({
    code: "internal",
    message: expect.not.stringContaining("acme"),
  });
  expect(faults.map(String)).toEqual(["Error: bucket acme-secret refused"]);
  await held.close();
  expect((await inner.list()).objects).toEqual([]);
});

test("a result that is given up while it is committed leaves nothing", async () => {
  const inner = createMemoryBackend();
  const late = wrapBackend(inner, {
    write: (write) => async (key, options) => {
      const writer = await write(key, options);
      return {
        ...writer,
        async commit() {
          const info = await writer.commit();
          // a service answers later than the object is there
          await new Promise((resolve) => setTimeout(resolve, 20));
          return info;
        },
      };
    },
  });
  const faults: unknown[] = [];
  const held = sharing(
    createStorageHold({ storage: late, onError: (error) => faults.push(error) }),
  );
  onTestFinished(() => held.close());
  for (const waitMs of [0, 10]) {
    const part = await held.create();
    await part.write(Buffer.alloc(100_000));
    const sealing = part.seal().catch((error: unknown) => error);
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    await part.discard();
    await sealing;
    expect((await inner.list()).objects).toEqual([]);
  }
  expect(faults).toEqual([]);
});

test("a storage gets no more results at once than it has buffers for", async () => {
  const held = sharing(createStorageHold({ storage: createMemoryBackend() }));
  onTestFinished(() => held.close());
  const parts = await Promise.all(Array.from({ length: 33 }, () => held.create()));
  const written = await Promise.allSettled(parts.map((part) => part.write(Buffer.alloc(70_000))));
  expect(written.map(({ status }) => status).filter((status) => status === "rejected")).toEqual([
    "rejected",
  ]);
  expect(written.at(-1)).toMatchObject({ reason: { code: "throttled" } });
  await parts[0]!.seal();
  await parts[1]!.discard();
  await parts[32]!.discard();
  const more = await Promise.all([held.create(), held.create()]);
  for (const part of more) await part.write(Buffer.alloc(70_000));
});

test("a body that breaks off while it is read again is told without its words", async () => {
  const broken = wrapBackend(createMemoryBackend(), {
    open: (open) => async (key, options) => {
      const whole = await open(key, options);
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.error(new Error("bucket acme-secret broke"));
        },
      });
      return { ...whole, body };
    },
  });
  const faults: unknown[] = [];
  const held = sharing(
    createStorageHold({ storage: broken, onError: (error) => faults.push(error) }),
  );
  onTestFinished(() => held.close());
  const part = await held.create();
  await part.write(Buffer.alloc(70_000));
  const reading = part.reread()[Symbol.asyncIterator]().next();
  await expect(reading).rejects.toMatchObject({ message: expect.not.stringContaining("acme") });
  expect(faults).toHaveLength(1);
});

test("rejects a storage that cannot write, and invalid bounds", () => {
  const { storage } = opened("memory");
  expect(() => createStorageHold({ storage })).toThrow("writable: true");
  for (const bad of [0, -1, Number.NaN]) {
    expect(() => createMemoryHold({ maxAgeMs: bad })).toThrow(RangeError);
    expect(() => createMemoryHold({ maxBytes: bad })).toThrow(RangeError);
    expect(() => createStorageHold({ storage: createMemoryBackend(), maxBytes: bad })).toThrow(
      RangeError,
    );
  }
});

test("results in a folder are readable only by this user", async () => {
  const root = mkdtempSync(join(tmpdir(), "sluice-held-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const storage = createFsBackend({ root, writable: true });
  const held = sharing(createStorageHold({ storage }));
  const { uri } = await hold(held, Buffer.alloc(200_000, 7), "a.bin");
  expect((await read(held, uri)).equals(Buffer.alloc(200_000, 7))).toBe(true);
  const [file] = readdirSync(join(root, "held"));
  expect(statSync(join(root, "held", file!)).mode & 0o777).toBe(0o600);
  await held.close();
  expect(readdirSync(root)).toEqual([]);
  await storage.close?.();
});

test("timers of a hold keep no process alive", async () => {
  const before = process.getActiveResourcesInfo().length;
  const held = sharing(createMemoryHold());
  await hold(held, "a");
  expect(process.getActiveResourcesInfo().length).toBe(before);
  await held.close();
});
