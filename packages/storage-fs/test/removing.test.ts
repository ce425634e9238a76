import { mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
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

test("a backend removes only when it was told that it may write", async () => {
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

test("a body that is being read ends whole or with an error, also one of a small file", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("small.txt", "small");
  const backend = removableBackend(tree);
  for (let n = 0; n < 3; n++) await readAll((await backend.open("small.txt")).body);
  const { body } = await backend.open("small.txt");
  await backend.remove("small.txt");
  expect((await readAll(body)).toString()).toBe("small");
  await expect(backend.open("small.txt")).rejects.toMatchObject({ code: "not_found" });
});
