import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, open, readFile, rm, truncate, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FileThread } from "../src/save/write/file-thread.ts";
import { createPartFile } from "../src/save/part-file.ts";

const mebibyte = 2 ** 20;
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function shared(bytes: Uint8Array): Buffer {
  const copy = Buffer.from(new SharedArrayBuffer(bytes.length));
  copy.set(bytes);
  return copy;
}

async function openThread(
  path?: string,
): Promise<AsyncDisposable & { handle: FileHandle; thread: FileThread }> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-thread-"));
  const handle = await open(path ?? join(directory, "file"), path ? "r+" : "w+");
  const thread = new FileThread(handle.fd);
  thread.expect(2 ** 30);
  await expect.poll(() => thread.isReady(), { timeout: 5_000 }).toBe(true);
  return {
    handle,
    thread,
    async [Symbol.asyncDispose]() {
      await thread.stop();
      await handle.close();
      await rm(directory, { recursive: true });
    },
  };
}

function write(thread: FileThread, chunk: Uint8Array, at: number): Promise<[number, unknown]> {
  return new Promise((resolve) =>
    thread.write([chunk], at, (bytes, fault) => resolve([bytes, fault])),
  );
}

test("blocks that a thread writes in any order, and bytes that it did not write, are hashed in the order of the file", async () => {
  await using opened = await openThread();
  const { handle, thread } = opened;
  const content = randomBytes(9 * mebibyte + 12_345);
  const block = (index: number): Buffer =>
    shared(content.subarray(index * mebibyte, (index + 1) * mebibyte));
  const writes: Promise<unknown>[] = [];
  const put = (index: number): unknown =>
    writes.push(write(thread, block(index), index * mebibyte));
  for (const index of [0, 1, 5, 3, 4, 9]) put(index);
  // what another thread wrote into the gap counts when it is told
  await handle.write(content, 2 * mebibyte, mebibyte, 2 * mebibyte);
  thread.advance(6 * mebibyte);
  for (const index of [6, 8, 7]) put(index);
  await Promise.all(writes);
  expect(await thread.digest(content.length)).toBe(sha256(content));
  expect((await handle.stat()).size).toBe(content.length);
});

test("memory may be used again when its write is done: file and digest keep what it held", async () => {
  await using opened = await openThread();
  const { handle, thread } = opened;
  const content = randomBytes(4 * mebibyte);
  const memory = shared(content);
  await write(thread, memory, 0);
  // the thread is done with it: it may be used again
  memory.fill(0);
  expect(await thread.digest(content.length)).toBe(sha256(content));
  const written = Buffer.alloc(content.length);
  await handle.read(written, 0, written.length, 0);
  expect(written.equals(content)).toBe(true);
});

test("a fault of the disk in the thread is told by its code, and nothing is written after it", async () => {
  await using opened = await openThread("/dev/full");
  const { thread } = opened;
  const first = write(thread, shared(Buffer.alloc(1_000)), 0);
  const second = write(thread, shared(Buffer.alloc(1_000)), 1_000);
  expect(await first).toMatchObject([0, { code: "ENOSPC" }]);
  expect(await second).toEqual([0, undefined]);
});

test("a thread that ends lets every write end with a fault", { tags: "slow" }, async () => {
  await using opened = await openThread();
  const { thread } = opened;
  const writing = write(thread, shared(Buffer.alloc(64 * mebibyte)), 0);
  await thread.stop();
  expect((await writing)[1]).toBeInstanceOf(Error);
  expect(thread.isReady()).toBe(false);
});

test("lent memory is given back when it is written and hashed, once for each of its views", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-part-"));
  const part = await createPartFile(directory);
  try {
    const content = randomBytes(12 * mebibyte);
    part.expect(2 ** 30);
    const memory = shared(content);
    let lent = 0;
    const release = (): void => void lent--;
    const buffer = part.writeBuffer(mebibyte);
    for (let at = 0; at < content.length; at += 1_000) {
      lent++;
      await buffer.write(memory.subarray(at, at + 1_000), at, release);
    }
    await part.flush();
    expect(lent).toBe(0);
    memory.fill(0);
    expect(await part.finish()).toEqual({ size: content.length, sha256: sha256(content) });
    expect((await readFile(part.path)).equals(content)).toBe(true);
  } finally {
    await part.discard();
    await rm(directory, { recursive: true });
  }
});

test("a part file that another program made shorter is corrupt, also where it was hashed out of memory", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-part-"));
  const part = await createPartFile(directory);
  try {
    part.expect(2 ** 30);
    const buffer = part.writeBuffer(mebibyte);
    const memory = shared(randomBytes(mebibyte));
    for (let index = 0; index < 16; index++) await buffer.write(memory, index * mebibyte, () => {});
    await part.flush();
    await truncate(part.path, 15 * mebibyte);
    await expect(part.finish()).rejects.toThrow(/shorter|the file has/);
  } finally {
    await part.discard();
    await rm(directory, { recursive: true });
  }
});
