import { execFileSync } from "node:child_process";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { UnlistedCounts } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test } from "vitest";
import { createTemporaryTree } from "./temporary-tree.ts";

/** A name of bytes that no text has. */
function bytesBelow(root: string, bytes: readonly number[]): Buffer {
  return Buffer.concat([Buffer.from(`${root}/`), Buffer.from(bytes)]);
}

/** Makes folders of which the innermost has a path of more than 1,024 bytes. */
async function makeDeep(root: string): Promise<void> {
  const names = Array.from({ length: 6 }, (_, n) => `${n}${"ü".repeat(90)}`);
  await mkdir(join(root, ...names), { recursive: true });
  await writeFile(join(root, ...names, "a.txt"), "");
}

/** Entries that no list has, each beside a file that is listed. A line for each kind. */
const cases: readonly (readonly [string, UnlistedCounts, (root: string) => Promise<unknown>])[] = [
  ["a tab", { control: 1 }, (root) => writeFile(join(root, "a\tb"), "")],
  ["a newline", { control: 1 }, (root) => writeFile(join(root, "a\nb"), "")],
  ["DEL", { control: 1 }, (root) => writeFile(join(root, "a\u007fb"), "")],
  ["a folder with a newline", { control: 1 }, (root) => mkdir(join(root, "a\nb"))],
  ["a backslash", { backslash: 1 }, (root) => writeFile(join(root, "a\\b"), "")],
  ["Latin-1", { notUtf8: 1 }, (root) => writeFile(bytesBelow(root, [0x66, 0xfc, 0x72]), "")],
  [
    "two names of bytes",
    { notUtf8: 2 },
    (root) => Promise.all([0xfe, 0xff].map((byte) => writeFile(bytesBelow(root, [byte]), ""))),
  ],
  ["a folder of bytes", { notUtf8: 1 }, (root) => mkdir(bytesBelow(root, [0xff]))],
  ["a long path", { tooLong: 1 }, makeDeep],
  ["a link to a file", { link: 1 }, (root) => symlink("seen.txt", join(root, "link"))],
  ["a link to a folder", { link: 1 }, (root) => symlink(".", join(root, "link"))],
  ["a link out", { link: 1 }, (root) => symlink("/etc/passwd", join(root, "link"))],
  ["a dead link", { link: 1 }, (root) => symlink("nothing", join(root, "link"))],
  ["a pipe", { special: 1 }, async (root) => execFileSync("mkfifo", [join(root, "pipe")])],
  [
    "hidden names",
    {},
    async (root) => {
      await writeFile(join(root, ".a\tb"), "");
      await symlink("seen.txt", join(root, ".link"));
      await writeFile(join(root, ".sluice-x.tmp"), "");
    },
  ],
];

const isPosix = process.platform !== "win32";

test.runIf(isPosix).each(cases)("a page counts %s", async (_, unlisted, make) => {
  await using tree = await createTemporaryTree();
  await tree.put("seen.txt", "x");
  await make(tree.root);
  const backend = createFsBackend({ root: tree.root });
  const page = await backend.list();
  expect(page.objects.map(({ key }) => key)).toEqual(["seen.txt"]);
  expect(page.unlisted ?? {}).toEqual(unlisted);
});

test.runIf(isPosix)("a page counts files and folders that may not be read", async () => {
  await using tree = await createTemporaryTree();
  for (const key of ["seen.txt", "shut.txt", "shut/a.txt"]) await tree.put(key, "x");
  for (const name of ["shut.txt", "shut"]) await chmod(join(tree.root, name), 0);
  await chmod(tree.path, 0o755);
  const backend = createFsBackend({ root: tree.root });
  const isRoot = process.getuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    const page = await backend.list();
    expect(page.objects.map(({ key }) => key)).toEqual(["seen.txt"]);
    expect(page.unlisted).toEqual({ unreadable: 2 });
  } finally {
    if (isRoot) process.seteuid?.(0);
    await chmod(join(tree.root, "shut"), 0o755);
  }
});

test.runIf(isPosix).each([true, false])(
  "all pages together count each entry once, with one backend: %s",
  async (isKept) => {
    await using tree = await createTemporaryTree();
    for (let n = 0; n < 20; n++) {
      const folder = n % 2 === 0 ? "even" : "odd";
      await mkdir(join(tree.root, folder), { recursive: true });
      await writeFile(join(tree.root, folder, `${n}.txt`), "");
      await writeFile(join(tree.root, folder, `${n}\t.txt`), "");
      await symlink("x", join(tree.root, folder, `${n}.link`));
    }
    let backend = createFsBackend({ root: tree.root });
    const sums = { control: 0, link: 0 };
    let cursor: string | undefined;
    do {
      const page = await backend.list({ limit: 3, ...(cursor !== undefined && { cursor }) });
      sums.control += page.unlisted?.control ?? 0;
      sums.link += page.unlisted?.link ?? 0;
      ({ cursor } = page);
      if (isKept) continue;
      await backend.close?.();
      backend = createFsBackend({ root: tree.root });
    } while (cursor !== undefined);
    await backend.close?.();
    expect(sums).toEqual({ control: 20, link: 20 });
  },
);

test.runIf(isPosix)("a page counts only what its prefix reaches", async () => {
  await using tree = await createTemporaryTree();
  for (const folder of ["docs", "other"]) {
    await tree.put(`${folder}/seen.txt`, "x");
    await writeFile(join(tree.root, folder, "a\tb"), "");
  }
  const backend = createFsBackend({ root: tree.root });
  expect((await backend.list({ prefix: "docs/" })).unlisted).toEqual({ control: 1 });
  expect((await backend.list({ prefix: "docs/seen" })).unlisted).toBeUndefined();
});
