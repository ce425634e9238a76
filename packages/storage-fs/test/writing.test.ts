import { createHash } from "node:crypto";
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  statfs,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import type { ObjectWriter, StorageBackend, WriteOptions } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test } from "vitest";
import { createTemporaryTree, racyMs, readAll, type TemporaryTree } from "./temporary-tree.ts";

/** A backend that can write, as `write` is only there when it was asked for. */
function writableBackend(
  tree: TemporaryTree,
): Required<Pick<StorageBackend, "write">> & StorageBackend {
  const backend = createFsBackend({ root: tree.root, racyMs, writable: true });
  const write = backend.write?.bind(backend);
  if (write === undefined) throw new Error("there is no write");
  return { ...backend, write };
}

async function put(
  backend: ReturnType<typeof writableBackend>,
  key: string,
  text: string,
  options?: WriteOptions,
): Promise<void> {
  const writer = await backend.write(key, options);
  await writer.write(Buffer.from(text));
  await writer.commit();
}

test("a backend writes only if so configured", async () => {
  await using tree = await createTemporaryTree();
  expect(createFsBackend({ root: tree.root })).not.toHaveProperty("write");
});

test("chunks of any size arrive in order, gathered or not", async () => {
  await using tree = await createTemporaryTree();
  const backend = writableBackend(tree);
  const sizes = [
    0,
    1,
    700,
    0,
    1_048_576,
    3,
    2_500_000,
    ...Array.from({ length: 3000 }, (_, n) => n % 7),
  ];
  const hash = createHash("sha256");
  const writer = await backend.write("big/file.bin");
  for (const [n, size] of sizes.entries()) {
    const chunk = Buffer.alloc(size, n);
    hash.update(chunk);
    await writer.write(chunk);
  }
  const { size } = await writer.commit();
  expect(size).toBe(sizes.reduce((sum, each) => sum + each, 0));
  const { body } = await backend.open("big/file.bin");
  const read = createHash("sha256")
    .update(await readAll(body))
    .digest("hex");
  expect(read).toBe(hash.digest("hex"));
});

test("links on the way are refused, and nothing is made behind them", async () => {
  await using tree = await createTemporaryTree();
  await mkdir(`${tree.root}-secret`);
  await symlink(`${tree.root}-secret`, join(tree.root, "way"));
  const backend = writableBackend(tree);
  for (const key of ["way/file.txt", "way/folder/file.txt"])
    await expect(backend.write(key)).rejects.toMatchObject({ code: /not_found|permission_denied/ });
  expect(await readdir(`${tree.root}-secret`)).toEqual([]);
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});

test("a link at the end is replaced itself and not what it leads to", async () => {
  await using tree = await createTemporaryTree();
  await writeFile(join(tree.path, "secret.txt"), "secret");
  await symlink("../secret.txt", join(tree.root, "link.txt"));
  const backend = writableBackend(tree);
  await put(backend, "link.txt", "mine");
  expect(await readFile(join(tree.path, "secret.txt"), "utf8")).toBe("secret");
  expect(await readFile(join(tree.root, "link.txt"), "utf8")).toBe("mine");
});

test("hidden and temporary names cannot be written", async () => {
  await using tree = await createTemporaryTree();
  const backend = writableBackend(tree);
  for (const key of [".htaccess", "a/.git/config", ".sluice-x.tmp"])
    await expect(backend.write(key)).rejects.toMatchObject({ code: "not_found" });
});

test("a failed precondition is reported before any byte is sent", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("there.txt", "first");
  const backend = writableBackend(tree);
  const failed = { code: "precondition_failed" };
  await expect(backend.write("there.txt", { ifAbsent: true })).rejects.toMatchObject(failed);
  await expect(backend.write("there.txt", { ifMatch: "other" })).rejects.toMatchObject(failed);
  await expect(backend.write("gone.txt", { ifMatch: "other" })).rejects.toMatchObject(failed);
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});

test("one of two writers that replace the same version wins", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("file.txt", "first");
  const backend = writableBackend(tree);
  const { etag = "" } = await backend.describe("file.txt");
  const ends = await Promise.allSettled(
    ["second", "third"].map((text) => put(backend, "file.txt", text, { ifMatch: etag })),
  );
  expect(ends.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
});

test("more bytes than were declared are refused when they come, not at the end", async () => {
  await using tree = await createTemporaryTree();
  const backend = writableBackend(tree);
  const writer = await backend.write("file.txt", { size: 3 });
  await writer.write(Buffer.from("abc"));
  await expect(writer.write(Buffer.from("d"))).rejects.toMatchObject({ code: "invalid_argument" });
  await expect(writer.commit()).rejects.toThrow(TypeError);
  expect(await readdir(tree.root)).toEqual([]);
});

test("a folder in the way is an error that leaves nothing behind", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("folder/file.txt", "x");
  const backend = writableBackend(tree);
  const writer = await backend.write("folder");
  await expect(writer.commit()).rejects.toMatchObject({ code: "unsupported" });
  expect(await readdir(tree.root)).toEqual(["folder"]);
  await expect(backend.write("folder/file.txt/below")).rejects.toMatchObject({ code: "not_found" });
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});

test("an abort at any moment leaves nothing, and no rejection goes unhandled", async () => {
  await using tree = await createTemporaryTree();
  const backend = writableBackend(tree);
  const reason = new Error("enough");
  const chunk = Buffer.alloc(600_000);
  const steps: ((writer: ObjectWriter) => Promise<unknown>)[] = [
    (writer) => writer.write(chunk),
    (writer) => writer.write(chunk),
    (writer) => writer.commit(),
  ];
  for (let abortAt = 0; abortAt < steps.length; abortAt++) {
    const caller = new AbortController();
    const writer = await backend.write("aborted.bin", { signal: caller.signal });
    const run = async (): Promise<void> => {
      for (const [n, step] of steps.entries()) {
        const going = step(writer);
        if (n === abortAt) caller.abort(reason);
        await going;
      }
    };
    await expect(run()).rejects.toBe(reason);
    await writer.abort();
    expect(await readdir(tree.root)).toEqual([]);
  }
  await expect(backend.write("x", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});

test(
  "a folder that may not be written to is permission_denied",
  { skip: process.platform === "win32" },
  async () => {
    await using tree = await createTemporaryTree();
    await mkdir(join(tree.root, "shut"));
    await chmod(join(tree.root, "shut"), 0o555);
    await chmod(tree.path, 0o755);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      await expect(writableBackend(tree).write("shut/file.txt")).rejects.toMatchObject({
        code: "permission_denied",
      });
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  },
);

test("a file that is written has the permissions that open(2) gives, and one that replaces another keeps its own", async () => {
  await using tree = await createTemporaryTree();
  const backend = writableBackend(tree);
  const modeOf = async (key: string): Promise<number> =>
    (await stat(join(tree.root, key))).mode & 0o777;
  await mkdir(join(tree.root, "plain"));
  await writeFile(join(tree.root, "plain", "file.txt"), "as the system makes it");
  for (const options of [{}, { ifAbsent: true }]) {
    await put(backend, "made/file.txt", "as the backend makes it", options);
    expect(await modeOf("made")).toBe(await modeOf("plain"));
    expect(await modeOf("made/file.txt")).toBe(await modeOf("plain/file.txt"));
    await backend.remove?.("made/file.txt");
  }
  for (const mode of [0o600, 0o640]) {
    await chmod(join(tree.root, "plain", "file.txt"), mode);
    await put(backend, "plain/file.txt", "replaced");
    expect(await modeOf("plain/file.txt")).toBe(mode);
  }
});

test("a private write is for this user only, with the folders that are made for it", async () => {
  await using tree = await createTemporaryTree();
  const backend = writableBackend(tree);
  const writer = await backend.write("a/b/file.txt", { private: true });
  await writer.write(Buffer.from("x".repeat(300_000)));
  const [temporary = ""] = await readdir(join(tree.root, "a", "b"));
  const modes = async (...keys: string[]): Promise<number[]> =>
    Promise.all(keys.map(async (key) => (await stat(join(tree.root, key))).mode & 0o777));
  expect(await modes("a", "a/b", `a/b/${temporary}`)).toEqual([0o700, 0o700, 0o600]);
  await writer.commit();
  expect(await modes("a/b/file.txt")).toEqual([0o600]);
  // also in the place of one that others could read
  await tree.put("open.txt", "before");
  await put(backend, "open.txt", "after", { private: true });
  expect(await modes("open.txt")).toEqual([0o600]);
});

test("a backend that may write says how much is free, and one that may not does not", async () => {
  await using tree = await createTemporaryTree();
  const free = await createFsBackend({ root: tree.root, writable: true }).freeBytes!();
  const { bavail, bsize, blocks } = await statfs(tree.root);
  expect(free).toBeGreaterThan(0);
  expect(Math.abs(free! - bavail * bsize)).toBeLessThan(blocks * bsize);
  expect(createFsBackend({ root: tree.root })).not.toHaveProperty("freeBytes");
});

test("a writer closes its folder even if its temporary file cannot be removed", async () => {
  await using tree = await createTemporaryTree();
  const writer = await writableBackend(tree).write("file.txt");
  const [temporary = ""] = await readdir(tree.root);
  await rm(join(tree.root, temporary));
  // the removal of a file fails for a folder
  await mkdir(join(tree.root, temporary));
  await writer.abort();
  expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
});
