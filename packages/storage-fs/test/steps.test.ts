import { fstatSync } from "node:fs";
import {
  type FileHandle,
  lstat,
  open as openFile,
  readdir,
  readFile,
  rename,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend, removeAbandonedWrites } from "@sluice/storage-fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { createTemporaryTree, racyMs } from "./temporary-tree.ts";

async function createFolder() {
  const tree = await createTemporaryTree();
  onTestFinished(() => tree[Symbol.asyncDispose]());
  const { root } = tree;
  // each as another process would have it
  const open = (): NonNullable<StorageBackend["writeInSteps"]> => {
    const backend = createFsBackend({ root, racyMs, writable: true });
    return (key, options) => backend.writeInSteps!(key, options);
  };
  const files = async (): Promise<string[]> => {
    const entries = await readdir(root, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
  };
  return { root, open, files, writeInSteps: open() };
}

test("an object in steps is one file, only for its user if private, that takes the name of its key", async () => {
  const { root, files, writeInSteps } = await createFolder();
  const writer = await writeInSteps("a/b.bin", { private: true });
  await writer.write(Buffer.from("one"));
  await writer.suspend();
  const [path, ...others] = await files();
  expect(others).toEqual([]);
  expect(path).toMatch(/\/a\/\.sluice-[0-9a-f]{64}\.steps$/);
  expect(path).not.toContain(writer.id);
  expect((await lstat(path!)).mode & 0o777).toBe(0o600);
  const { ino } = await lstat(path!);
  const last = await writeInSteps("a/b.bin", { id: writer.id });
  expect(last.offset).toBe(3);
  await last.write(Buffer.from("two"));
  await last.commit();
  expect(await files()).toEqual([join(root, "a/b.bin")]);
  expect((await lstat(join(root, "a/b.bin"))).ino).toBe(ino);
});

test("a writer that another process has overtaken writes and makes nothing, even after the object was made", async () => {
  const { open, files, writeInSteps } = await createFolder();
  const stale = await writeInSteps("a.bin");
  const { id } = stale;
  const other = await open()("a.bin", { id });
  await other.write(Buffer.alloc(2 ** 21, 1));
  await other.suspend();
  await stale.write(Buffer.alloc(10, 2));
  await expect(stale.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  const behind = await writeInSteps("a.bin", { id });
  expect(behind.offset).toBe(2 ** 21);
  await (await open()("a.bin", { id })).commit();
  const late = behind.write(Buffer.alloc(10, 3));
  await expect(late).rejects.toMatchObject({ code: "precondition_failed" });
  const [path] = await files();
  expect((await lstat(path!)).size).toBe(2 ** 21);
});

test("a pending write of a stopped writer is in no object, however late it is written", async () => {
  const { root, open, files, writeInSteps } = await createFolder();
  const stopped = await writeInSteps("a.bin");
  await stopped.write(Buffer.alloc(2 ** 21, 1));
  const { id } = stopped;
  const [path] = await files();
  await expect.poll(async () => (await lstat(path!)).size).toBe(2 ** 21);
  // the file that the stopped writer has open, and looked at before it was stopped
  await using late = await openFile(path!, "r+");
  const next = await open()("a.bin", { id });
  expect(next.offset).toBe(2 ** 21);
  await next.write(Buffer.alloc(2 ** 20, 2));
  await late.write(Buffer.alloc(10, 3), 0, 10, 2 ** 21);
  await next.suspend();
  await late.write(Buffer.alloc(10, 3), 0, 10, 2 ** 21);
  await (await open()("a.bin", { id })).commit();
  await late.write(Buffer.alloc(10, 3), 0, 10, 2 ** 21);
  const whole = Buffer.concat([Buffer.alloc(2 ** 21, 1), Buffer.alloc(2 ** 20, 2)]);
  expect((await readFile(join(root, "a.bin"))).equals(whole)).toBe(true);
  await expect(stopped.suspend()).resolves.toBeDefined();
  await expect(open()("a.bin", { id })).rejects.toMatchObject({ code: "not_found" });
  expect(await files()).toEqual([join(root, "a.bin")]);
});

test("a writer that ended leaves its file to the next one, which copies nothing", async () => {
  const { files, writeInSteps } = await createFolder();
  const writer = await writeInSteps("a.bin");
  await writer.write(Buffer.from("one"));
  await writer.suspend();
  const inodes = async (): Promise<unknown[]> =>
    Promise.all((await files()).map(async (path) => (await lstat(path)).ino));
  const before = await inodes();
  const caller = new AbortController();
  const next = await writeInSteps("a.bin", { id: writer.id, signal: caller.signal });
  await next.write(Buffer.from("two"));
  caller.abort();
  await expect.poll(() => files()).toEqual([expect.stringMatching(/[0-9a-f]{64}\.steps$/)]);
  expect(await inodes()).toEqual(before);
});

/** Notes in which order files and folders are made durable. */
async function watchSyncs(root: string) {
  const handle = await openFile(root);
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const synced: string[] = [];
  for (const name of ["sync", "datasync"] as const) {
    const real = prototype[name];
    const spy = vi.spyOn(prototype, name).mockImplementation(function (this: FileHandle) {
      synced.push(fstatSync(this.fd).isDirectory() ? "folder" : "file");
      return real.call(this);
    });
    onTestFinished(() => spy.mockRestore());
  }
  return synced;
}

test("a writer that gives up makes its bytes durable before the next one can count them", async () => {
  const { root, files, writeInSteps } = await createFolder();
  const caller = new AbortController();
  const writer = await writeInSteps("a.bin", { signal: caller.signal });
  await writer.write(Buffer.from("one"));
  const synced = await watchSyncs(root);
  caller.abort();
  await expect.poll(() => files()).toEqual([expect.stringMatching(/[0-9a-f]{64}\.steps$/)]);
  expect(synced).toEqual(["file"]);
});

test("the copy of a file whose writer did not end has its name for good before bytes are kept in it", async () => {
  const { root, files, writeInSteps } = await createFolder();
  const writer = await writeInSteps("a.bin");
  await writer.write(Buffer.from("kept"));
  await writer.suspend();
  const [path] = await files();
  await rename(path!, path!.replace(".steps", `-${"a".repeat(16)}.steps`));
  const next = await writeInSteps("a.bin", { id: writer.id });
  const synced = await watchSyncs(root);
  await next.write(Buffer.from(" whole"));
  expect(synced).toEqual(["file", "folder"]);
  await next.abort();
});

test("the longer of two files that claims at once have left is resumed, and no other stays", async () => {
  const { files, writeInSteps } = await createFolder();
  const writer = await writeInSteps("a.bin");
  await writer.write(Buffer.from("kept"));
  await writer.suspend();
  const [path] = await files();
  const named = (token: string): string => path!.replace(".steps", `-${token.repeat(16)}.steps`);
  await rename(path!, named("b"));
  for (const token of ["a", "c"]) await writeFile(named(token), "ke");
  const next = await writeInSteps("a.bin", { id: writer.id });
  expect(next.offset).toBe(4);
  await next.write(Buffer.from(" whole"));
  await next.commit();
  const [made, ...others] = await files();
  expect(others).toEqual([]);
  expect(await readFile(made!, "utf8")).toBe("kept whole");
});

test("bytes lost with the power are written again: a step begins where the file ends", async () => {
  const { files, writeInSteps } = await createFolder();
  const writer = await writeInSteps("a.bin");
  await writer.write(Buffer.from("kept and lost"));
  await writer.suspend();
  const [path] = await files();
  await truncate(path!, 4);
  const next = await writeInSteps("a.bin", { id: writer.id });
  expect(next.offset).toBe(4);
  await next.abort();
  expect(await files()).toEqual([]);
});

test("removeAbandonedWrites keeps objects in steps for a week, and other temporary files for an hour", async () => {
  const { root, files, writeInSteps } = await createFolder();
  await (await writeInSteps("a.bin")).suspend();
  await writeFile(join(root, `.sluice-${crypto.randomUUID()}.tmp`), "left");
  const age = async (hours: number): Promise<void> => {
    const time = new Date(Date.now() - hours * 3_600_000);
    for (const path of await files()) await utimes(path, time, time);
  };
  await age(6 * 24);
  expect(await removeAbandonedWrites({ root })).toBe(1);
  expect(await files()).toHaveLength(1);
  await age(7 * 24 + 1);
  expect(await removeAbandonedWrites({ root })).toBe(1);
  expect(await files()).toEqual([]);
});
