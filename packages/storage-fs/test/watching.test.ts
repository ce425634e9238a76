import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test, vi } from "vitest";
import { createTemporaryTree, type TemporaryTree } from "./temporary-tree.ts";

// a disk that others write to answers late
vi.setConfig({ testTimeout: 60_000 });

/** An armed watch; `noticed` takes batches until the key was reported. */
async function startWatch(tree: TemporaryTree, prefix = "") {
  const caller = new AbortController();
  const backend = createFsBackend({ root: tree.root });
  const batches = backend.watch?.({ prefix, signal: caller.signal })[Symbol.asyncIterator]();
  if (batches === undefined) throw new Error("there is no watch");
  expect((await batches.next()).value).toEqual({});
  return {
    caller,
    backend,
    batches,
    noticed: async (kind: "changed" | "removed", key: string): Promise<boolean> => {
      for (let step = await batches.next(); !step.done; step = await batches.next())
        if (step.value[kind]?.includes(key)) return true;
      return false;
    },
  };
}

test("files in a folder that is new, renamed or removed are reported one by one", async () => {
  await using tree = await createTemporaryTree();
  const { noticed, caller } = await startWatch(tree);
  await mkdir(join(tree.root, "a/b/c"), { recursive: true });
  await writeFile(join(tree.root, "a/b/c/file.txt"), "1");
  expect(await noticed("changed", "a/b/c/file.txt")).toBe(true);
  await rename(join(tree.root, "a/b"), join(tree.root, "moved"));
  expect(await noticed("changed", "moved/c/file.txt")).toBe(true);
  await writeFile(join(tree.root, "moved/c/file.txt"), "22");
  expect(await noticed("changed", "moved/c/file.txt")).toBe(true);
  await rm(join(tree.root, "moved"), { recursive: true });
  expect(await noticed("removed", "moved/c/file.txt")).toBe(true);
  caller.abort();
});

test("a file that is replaced by rename again and again is noticed each time, and so is its removal", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("folder/file.txt", "0");
  const { noticed, caller } = await startWatch(tree);
  for (let n = 0; n < 3; n++) {
    await tree.put("folder/.next", `version ${n}`);
    await rename(join(tree.root, "folder/.next"), join(tree.root, "folder/file.txt"));
    expect(await noticed("changed", "folder/file.txt")).toBe(true);
  }
  await rm(join(tree.root, "folder/file.txt"));
  expect(await noticed("removed", "folder/file.txt")).toBe(true);
  caller.abort();
});

test("a folder that another one replaces under its name is watched in its place", async () => {
  await using tree = await createTemporaryTree();
  for (const folder of ["folder", ".next"]) await tree.put(`${folder}/file.txt`, folder);
  const { noticed, caller } = await startWatch(tree);
  await rename(join(tree.root, "folder"), join(tree.root, ".old"));
  await rename(join(tree.root, ".next"), join(tree.root, "folder"));
  expect(await noticed("changed", "folder/file.txt")).toBe(true);
  await writeFile(join(tree.root, "folder/file.txt"), "another");
  expect(await noticed("changed", "folder/file.txt")).toBe(true);
  caller.abort();
});

test("hidden and temporary files are not reported", async () => {
  await using tree = await createTemporaryTree();
  const { batches, caller } = await startWatch(tree);
  await tree.put(".hidden/file.txt", "x");
  await tree.put(".sluice-upload.tmp", "x");
  await tree.put("seen.txt", "x");
  expect((await batches.next()).value).toEqual({ changed: ["seen.txt"], removed: [] });
  caller.abort();
});

test.each(["abort", "close", "return"] as const)(
  "nothing stays open after %s, whether somebody waits or not",
  async (how) => {
    await using tree = await createTemporaryTree();
    await tree.put("folder/file.txt", "x");
    const before = process.getActiveResourcesInfo().filter((name) => name === "FSEventWrap").length;
    for (const isWaiting of [true, false]) {
      const { batches, backend, caller } = await startWatch(tree);
      // a generator that is waited for takes no return
      const ended = { done: true, value: undefined };
      const next = isWaiting && how !== "return" ? batches.next() : ended;
      if (how === "abort") caller.abort(new Error("enough"));
      else if (how === "close") await backend.close?.();
      else await batches.return?.();
      expect(await next).toEqual(ended);
      expect((await batches.next()).done).toBe(true);
    }
    expect(process.getActiveResourcesInfo().filter((name) => name === "FSEventWrap")).toHaveLength(
      before,
    );
    expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
  },
);

test("a cursor is invalid_argument, because none is ever given", async () => {
  await using tree = await createTemporaryTree();
  const backend = createFsBackend({ root: tree.root });
  const { signal } = new AbortController();
  const batches = backend.watch?.({ cursor: "x", signal })[Symbol.asyncIterator]();
  await expect(batches?.next()).rejects.toMatchObject({ code: "invalid_argument" });
});
