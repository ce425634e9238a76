import { mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend, removeAbandonedWrites } from "@sluice/storage-fs";
import { expect, test } from "vitest";
import { createTemporaryTree, racyMs, readAll, type TemporaryTree } from "./temporary-tree.ts";

function removableBackend(
  tree: TemporaryTree,
): Required<Pick<StorageBackend, "remove">> & StorageBackend {
  const backend = createFsBackend({ root: tree.root, racyMs, writable: true });
  const remove = backend.remove?.bind(backend);
  if (remove === undefined) throw new Error("there is no remove");
  return { ...backend, remove };
}

test("a backend removes only if it may write", async () => {
  await using tree = await createTemporaryTree();
  expect(createFsBackend({ root: tree.root })).not.toHaveProperty("remove");
});

test("a link on the way is refused, as what lies behind it stays readable", async () => {
  await using tree = await createTemporaryTree();
  await mkdir(`${tree.root}-secret`);
  await writeFile(`${tree.root}-secret/file.txt`, "secret");
  await symlink(`${tree.root}-secret`, join(tree.root, "out"));
  await tree.put("real/file.txt", "inside");
  await symlink("real", join(tree.root, "way"));
  const backend = removableBackend(tree);
  for (const key of ["out/file.txt", "way/file.txt", "out/missing.txt"])
    await expect(backend.remove(key)).rejects.toMatchObject({ code: "permission_denied" });
  expect(await readFile(`${tree.root}-secret/file.txt`, "utf8")).toBe("secret");
  expect(await readFile(join(tree.root, "real/file.txt"), "utf8")).toBe("inside");
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});

test("a link at the end is removed itself and not what it leads to", async () => {
  await using tree = await createTemporaryTree();
  await writeFile(join(tree.path, "secret.txt"), "secret");
  await symlink("../secret.txt", join(tree.root, "link.txt"));
  await removableBackend(tree).remove("link.txt");
  expect(await readFile(join(tree.path, "secret.txt"), "utf8")).toBe("secret");
  await expect(readlink(join(tree.root, "link.txt"))).rejects.toThrow("ENOENT");
});

test("folders, pipes and hidden names are not removed", async () => {
  await using tree = await createTemporaryTree();
  await mkdir(join(tree.root, "folder"));
  execFileSync("mkfifo", [join(tree.root, "pipe")]);
  await tree.put(".hidden", "hidden");
  const backend = removableBackend(tree);
  for (const key of ["folder", "pipe"])
    await expect(backend.remove(key)).rejects.toMatchObject({ code: "unsupported" });
  await backend.remove(".hidden");
  expect((await readdir(tree.root)).toSorted()).toEqual([".hidden", "folder", "pipe"]);
});

test("a body that is being read ends whole or with an error, even one of a small file", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("small.txt", "small");
  const backend = removableBackend(tree);
  for (let n = 0; n < 3; n++) await readAll((await backend.open("small.txt")).body);
  const { body } = await backend.open("small.txt");
  await backend.remove("small.txt");
  expect((await readAll(body)).toString()).toBe("small");
  await expect(backend.open("small.txt")).rejects.toMatchObject({ code: "not_found" });
});

test("folders that are empty then go as well, and others stay", async () => {
  await using tree = await createTemporaryTree();
  const backend = removableBackend(tree);
  await tree.put("a/b/c/1.txt", "1");
  await tree.put("a/2.txt", "2");
  await tree.put("hidden/.keep", "");
  await tree.put("hidden/3.txt", "3");
  await backend.remove("a/b/c/1.txt");
  await backend.remove("hidden/3.txt");
  expect((await readdir(tree.root, { recursive: true })).toSorted()).toEqual([
    "a",
    "a/2.txt",
    "hidden",
    "hidden/.keep",
  ]);
  await backend.remove("a/2.txt");
  expect(await readdir(tree.root)).toEqual(["hidden"]);
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});

test("a write that is given up leaves no folder that it made", async () => {
  await using tree = await createTemporaryTree();
  const backend = removableBackend(tree);
  const writer = await backend.write?.("made/for/nothing.txt");
  await writer?.write(Buffer.from("nothing"));
  await writer?.abort();
  expect(await readdir(tree.root)).toEqual([]);
});

test(
  "a writer is not disturbed by removals that take its empty folder away",
  { tags: "slow" },
  async () => {
    await using tree = await createTemporaryTree();
    const backend = removableBackend(tree);
    const rounds = process.env["SLUICE_DEEP"] === undefined ? 30 : 1000;
    const churn = async (name: string): Promise<void> => {
      for (let n = 0; n < rounds; n++) {
        const writer = await backend.write?.(`deep/folder/${name}.txt`);
        await writer?.write(Buffer.from(name));
        await writer?.commit();
        await backend.remove(`deep/folder/${name}.txt`);
      }
    };
    await Promise.all(["a", "b", "c"].map(churn));
    expect(await readdir(tree.root)).toEqual([]);
  },
);

test("only old leftovers of a killed process's writers are removed", async () => {
  await using tree = await createTemporaryTree();
  const temporary = ".sluice-01234567-89ab-cdef-0123-456789abcdef.tmp";
  await tree.put(`a/b/${temporary}`, "left");
  await tree.put(`c/${temporary}`, "left");
  await tree.put("c/1.txt", "1");
  await tree.put("c/.sluice-other.tmp", "not ours");
  expect(await removeAbandonedWrites({ root: tree.root })).toBe(0);
  expect(await removeAbandonedWrites({ root: tree.root, olderThanMs: 0 })).toBe(2);
  expect((await readdir(tree.root, { recursive: true })).toSorted()).toEqual([
    "c",
    "c/.sluice-other.tmp",
    "c/1.txt",
  ]);
});
