import {
  chmod,
  link,
  mkdir,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createFsBackend } from "@sluice/storage-fs";
import { protect, type OpenedObject, type StorageBackend } from "@sluice/storage";
import { createTemporaryTree, racyMs, readAll } from "./temporary-tree.ts";

const kibibyte = 1024;

/** Opens an object some times and gives the last one open; the others are let go. */
async function openOften(backend: StorageBackend, key: string, times = 3): Promise<OpenedObject> {
  for (let i = 1; i < times; i++) {
    const opened = await backend.open(key);
    await opened.file?.close();
  }
  return backend.open(key);
}

describe.runIf(process.platform === "linux")("a small file", () => {
  test("is in memory after two requests, and no descriptor is left open", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.txt", "hello");
    const backend = createFsBackend({ root: tree.root, racyMs });
    expect((await openOften(backend, "a.txt", 1)).bytes).toBeUndefined();
    const { bytes, file, info, body } = await openOften(backend, "a.txt");
    expect(Buffer.from(bytes!).toString()).toBe("hello");
    expect(file).toBeUndefined();
    expect(info).toEqual(await backend.describe("a.txt"));
    expect((await readAll(body)).toString()).toBe("hello");
  });

  test("cannot be altered in memory through a body", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.txt", "hello");
    const backend = createFsBackend({ root: tree.root, racyMs });
    for await (const chunk of (await openOften(backend, "a.txt")).body) chunk.fill(0);
    expect(Buffer.from((await backend.open("a.txt")).bytes!).toString()).toBe("hello");
  });

  test("is read anew when it changes, even if its size and modification time stay", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.txt", "hello");
    const backend = createFsBackend({ root: tree.root, racyMs });
    const { info } = await openOften(backend, "a.txt");
    const { atime, mtime } = await stat(join(tree.root, "a.txt"));
    await tree.put("a.txt", "HELLO");
    await utimes(join(tree.root, "a.txt"), atime, mtime);
    const { body } = await backend.open("a.txt");
    expect((await readAll(body)).toString()).toBe("HELLO");
    await expect(backend.open("a.txt", { ifMatch: info.etag! })).rejects.toMatchObject({
      code: "precondition_failed",
    });
  });

  test.each<[string, (path: string) => Promise<unknown>]>([
    ["gone", (path) => rm(path)],
    ["a folder", async (path) => (await rm(path), mkdir(path))],
    ["a link to the outside", async (path) => (await rm(path), symlink("../../outside.txt", path))],
    [
      "below a link to the outside",
      async (path) => {
        await rename(dirname(path), `${dirname(path)}-moved`);
        await symlink("../outside", dirname(path));
      },
    ],
  ])("is no longer served when its name is now %s", async (_what, swap) => {
    await using tree = await createTemporaryTree();
    await mkdir(join(tree.path, "outside"));
    for (const name of ["outside.txt", "outside/a.txt"])
      await writeFile(join(tree.path, name), "secret");
    await tree.put("folder/a.txt", "public");
    const backend = createFsBackend({ root: tree.root, racyMs });
    expect((await openOften(backend, "folder/a.txt")).bytes).toBeDefined();
    await swap(join(tree.root, "folder/a.txt"));
    await expect(backend.open("folder/a.txt")).rejects.toMatchObject({
      code: /not_found|permission_denied|unsupported/,
    });
  });

  test("is served for a second at most when its folder left the root, with a link in its place", async () => {
    await using tree = await createTemporaryTree();
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    await tree.put("folder/a.txt", "public");
    const backend = createFsBackend({ root: tree.root, racyMs });
    expect((await openOften(backend, "folder/a.txt")).bytes).toBeDefined();
    vi.advanceTimersByTime(1_000);
    // proven anew, and still in memory
    expect((await backend.open("folder/a.txt")).bytes).toBeDefined();
    await rename(join(tree.root, "folder"), join(tree.path, "moved"));
    await symlink("../moved", join(tree.root, "folder"));
    vi.advanceTimersByTime(1_000);
    await expect(backend.open("folder/a.txt")).rejects.toMatchObject({ code: "permission_denied" });
    expect(tree.countOpen().files).toBe(0);
  });

  test("is found without waiting, as `open` gives it, the same object until it changes", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.txt", "hello");
    const backend = protect(createFsBackend({ root: tree.root, racyMs }));
    const find = backend.open.inMemory!;
    expect(find("a.txt")).toBeUndefined();
    const { info, bytes } = await openOften(backend, "a.txt");
    expect(find("a.txt")).toMatchObject({ info, bytes });
    expect(find("a.txt")).toBe(find("a.txt"));
    for (const key of ["b.txt", "../a.txt", ".a.txt", "", "a.txt/"])
      expect(find(key)).toBeUndefined();
  });

  test.each<[string, (path: string) => Promise<unknown>]>([
    [
      "replaced",
      async (path) => (await writeFile(`${path}.new`, "HELLO"), rename(`${path}.new`, path)),
    ],
    ["written over", (path) => writeFile(path, "HELLO")],
    ["truncated", (path) => truncate(path, 4)],
    ["appended to", (path) => writeFile(path, "!", { flag: "a" })],
    ["given another mode", (path) => chmod(path, 0)],
    ["given a second name", (path) => link(path, `${path}.too`)],
    ["removed", (path) => rm(path)],
    [
      "a link to itself, as it was",
      async (path) => (await rename(path, `${path}.old`), symlink(`${path}.old`, path)),
    ],
    ["a link to the outside", async (path) => (await rm(path), symlink("../../outside.txt", path))],
    [
      "in a folder that is a link",
      async (path) => (
        await rename(dirname(path), `${dirname(path)}-moved`),
        symlink("../outside", dirname(path))
      ),
    ],
  ])("is not found in memory at the first look after it was %s", async (_what, change) => {
    await using tree = await createTemporaryTree();
    await mkdir(join(tree.path, "outside"));
    for (const name of ["outside.txt", "outside/a.txt"])
      await writeFile(join(tree.path, name), "secret");
    await tree.put("folder/a.txt", "hello");
    const backend = protect(createFsBackend({ root: tree.root, racyMs }));
    await openOften(backend, "folder/a.txt");
    const find = backend.open.inMemory!;
    expect(find("folder/a.txt")).toBeDefined();
    await change(join(tree.root, "folder/a.txt"));
    expect(find("folder/a.txt")).toBeUndefined();
    // nor later: it was let go
    expect(find("folder/a.txt")).toBeUndefined();
  });

  test("is not found in memory a second after the last proof of where it lies", async () => {
    await using tree = await createTemporaryTree();
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    await tree.put("a.txt", "hello");
    const backend = protect(createFsBackend({ root: tree.root, racyMs }));
    await openOften(backend, "a.txt");
    const find = backend.open.inMemory!;
    const kept = find("a.txt");
    expect(kept).toBeDefined();
    vi.advanceTimersByTime(1_000);
    expect(find("a.txt")).toBeUndefined();
    await backend.open("a.txt");
    expect(find("a.txt")).toBe(kept);
  });

  test("is not kept if it is too young to have an etag", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.txt", "hello");
    const backend = createFsBackend({ root: tree.root, racyMs: 60_000 });
    const opened = await openOften(backend, "a.txt", 4);
    expect(opened.bytes).toBeUndefined();
    await opened.file?.close();
  });

  test("is not kept above 64 KiB, and all together are at most 8 MiB", async () => {
    await using tree = await createTemporaryTree();
    const backend = createFsBackend({ root: tree.root, racyMs });
    await tree.put("large", new Uint8Array(64 * kibibyte + 1));
    const large = await openOften(backend, "large");
    expect(large.bytes).toBeUndefined();
    await large.file?.close();
    const keys = Array.from({ length: 140 }, (_, index) => `small-${index}`);
    await Promise.all(keys.map((key) => tree.put(key, new Uint8Array(64 * kibibyte))));
    for (const key of keys) expect((await openOften(backend, key)).bytes).toBeDefined();
    // the oldest made room for the newest
    const first = await backend.open("small-0");
    expect(first.bytes).toBeUndefined();
    await first.file?.close();
    expect((await backend.open("small-139")).bytes).toBeDefined();
    expect(tree.countOpen().files).toBe(0);
  });

  test("gives a range through the file itself", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.txt", "hello");
    const backend = createFsBackend({ root: tree.root, racyMs });
    await openOften(backend, "a.txt");
    const { body, bytes } = await backend.open("a.txt", { range: { start: 1, end: 3 } });
    expect(bytes).toBeUndefined();
    expect((await readAll(body)).toString()).toBe("el");
  });
});
