import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hashTree } from "../hash-tree.mjs";

async function tree() {
  const root = await mkdtemp(join(tmpdir(), "hash-tree-"));
  onTestFinished(() => rm(root, { recursive: true }));
  await mkdir(join(root, "src"));
  await writeFile(join(root, "src", "a.ts"), "export const a = 1;\n");
  await writeFile(join(root, "b.json"), "{}\n");
  return root;
}

test("equal files have one hash, wherever they lie", async () => {
  expect(hashTree(await tree())).toBe(hashTree(await tree()));
});

test.for([
  ["a changed file", (root) => writeFile(join(root, "src", "a.ts"), "export const a = 2;\n")],
  ["a new file", (root) => writeFile(join(root, "src", "empty.ts"), "")],
  ["a file of another name", (root) => rename(join(root, "b.json"), join(root, "c.json"))],
  ["a file fewer", (root) => rm(join(root, "b.json"))],
  [
    "a border between two files elsewhere",
    async (root) => {
      await rm(join(root, "b.json"));
      await writeFile(join(root, "b.jso"), "n\0{}\n");
    },
  ],
])("%s gives another hash", async ([, change]) => {
  const root = await tree();
  const before = hashTree(root);
  await change(root);
  expect(hashTree(root)).not.toBe(before);
});

test("installed and built files are left out, and a link is not followed", async () => {
  const root = await tree();
  const before = hashTree(root);
  for (const name of ["node_modules", "dist"]) {
    await mkdir(join(root, "src", name));
    await writeFile(join(root, "src", name, "x.js"), "x");
  }
  await symlink(root, join(root, "src", "round"));
  expect(hashTree(root)).toBe(before);
});
