import { closeSync, mkdirSync, openSync } from "node:fs";
import { chmod, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createFsBackend } from "@sluice/storage-fs";
import { formatCursor } from "@sluice/storage/plugin";
import { describe, expect, test } from "vitest";
import { createTemporaryTree, type TemporaryTree } from "./temporary-tree.ts";

/** Makes empty files without waiting for anything. */
function fill(tree: TemporaryTree, folder: string, count: number): string[] {
  mkdirSync(join(tree.root, folder), { recursive: true });
  return Array.from({ length: count }, (_, n) => {
    const key = `${folder}/${String(n).padStart(7, "0")}.bin`;
    closeSync(openSync(join(tree.root, key), "w"));
    return key;
  });
}

/** Walks through all pages with one backend, or with a new one for each. */
async function walk(
  tree: TemporaryTree,
  kind: "warm" | "cold",
  options: { readonly limit: number; readonly prefix?: string },
  between: (visited: readonly string[]) => Promise<void> = async () => {},
): Promise<string[]> {
  const visited: string[] = [];
  let backend = createFsBackend({ root: tree.root });
  let cursor: string | undefined;
  do {
    const page = await backend.list(cursor === undefined ? options : { ...options, cursor });
    expect(page.objects.length).toBeLessThanOrEqual(options.limit);
    visited.push(...page.objects.map(({ key }) => key));
    ({ cursor } = page);
    if (cursor !== undefined) await between(visited);
    if (kind === "cold") {
      await backend.close?.();
      backend = createFsBackend({ root: tree.root });
    }
  } while (cursor !== undefined);
  return visited;
}

describe("a walk", () => {
  test(
    "gives every file once, whether it is kept open or begun anew for every page",
    { tags: "slow" },
    async () => {
      await using tree = await createTemporaryTree();
      const keys = ["a", "a/b/c", "d", "d/e"]
        .flatMap((folder) => fill(tree, folder, 23))
        .toSorted();
      for (const limit of [1, 7, 1000])
        for (const kind of ["warm", "cold"] as const)
          expect((await walk(tree, kind, { limit })).toSorted()).toEqual(keys);
      expect(tree.countOpen().directories).toBe(0);
    },
  );

  test.each(["warm", "cold"] as const)(
    "finds what is there all the time, whatever comes and goes (%s)",
    async (kind) => {
      await using tree = await createTemporaryTree();
      const folders = ["a", "b/c", "b/d"];
      const lasting = folders.flatMap((folder) => fill(tree, folder, 40));
      const passing = folders
        .flatMap((folder) => fill(tree, `${folder}/sub`, 10))
        .concat(folders.flatMap((folder) => fill(tree, folder, 60).slice(40)));
      let added = 0;
      const visited = await walk(tree, kind, { limit: 3 }, async (before) => {
        // a cursor remembers the last names found: take just those away
        for (const key of before.slice(-3).concat(passing.shift() ?? []))
          if (!lasting.includes(key)) await rm(join(tree.root, key), { force: true });
        await writeFile(join(tree.root, folders[added % 3] ?? "", `new-${added++}`), "");
        if (added === 10) await rm(join(tree.root, "b/c/sub"), { recursive: true, force: true });
        if (added === 20) await rename(join(tree.root, "b/d/sub"), join(tree.root, "moved"));
        if (added > 300) throw new Error("the walk does not end");
      });
      expect(visited).toEqual(expect.arrayContaining(lasting));
    },
  );

  test("begins its folder again when it loses every name it remembers, and misses nothing", async () => {
    await using tree = await createTemporaryTree();
    const keys = fill(tree, "folder", 30);
    const first = await createFsBackend({ root: tree.root }).list({ limit: 10 });
    const seen = first.objects.map(({ key }) => key);
    for (const key of seen) await rm(join(tree.root, key));
    const { objects } = await createFsBackend({ root: tree.root }).list({
      cursor: first.cursor ?? "",
    });
    expect([...seen, ...objects.map(({ key }) => key)].toSorted()).toEqual(keys);
  });

  test("would miss files if a cursor were a count", async () => {
    await using tree = await createTemporaryTree();
    const keys = fill(tree, "folder", 30);
    const page = async (skip: number): Promise<string[]> =>
      (await readdir(join(tree.root, "folder"))).slice(skip).map((name) => `folder/${name}`);
    const seen = (await page(0)).slice(0, 10);
    for (const key of seen) await rm(join(tree.root, key));
    expect([...seen, ...(await page(10))].toSorted()).not.toEqual(keys);
  });

  test("is unavailable, and not empty, when the root is gone", async () => {
    await using tree = await createTemporaryTree();
    const backend = createFsBackend({ root: tree.root });
    await rm(tree.root, { recursive: true });
    await expect(backend.list()).rejects.toMatchObject({ code: "unavailable" });
  });

  test("may be asked for the same page again, and shared by many", async () => {
    await using tree = await createTemporaryTree();
    fill(tree, "folder", 50);
    const backend = createFsBackend({ root: tree.root });
    const { cursor = "" } = await backend.list({ limit: 10 });
    const pages = await Promise.all(
      Array.from({ length: 5 }, () => backend.list({ limit: 10, cursor })),
    );
    const again = await backend.list({ limit: 10, cursor });
    const keysOf = (page: typeof again): string[] => page.objects.map(({ key }) => key);
    for (const page of pages) expect(keysOf(page)).toEqual(keysOf(again));
    await backend.close?.();
    expect(tree.countOpen().directories).toBe(0);
  });

  test("reads only folders that can hold the prefix, and nothing outside", async () => {
    await using tree = await createTemporaryTree();
    fill(tree, "docs/manual", 2);
    fill(tree, "docs-old", 2);
    const backend = createFsBackend({ root: tree.root });
    const count = async (prefix: string): Promise<number> =>
      (await backend.list({ prefix })).objects.length;
    expect(await count("docs")).toBe(4);
    expect(await count("docs/")).toBe(2);
    expect(await count("docs/man")).toBe(2);
    expect(await count("docs/manual/0000001")).toBe(1);
    for (const prefix of [
      "../",
      "/",
      "./",
      "docs//",
      "docs/../docs-old/",
      "../data-secret/",
      "docs/manual/0000001.bin/",
    ])
      expect([prefix, await count(prefix)]).toEqual([prefix, 0]);
  });

  test("skips files that may not be read", { skip: process.platform === "win32" }, async () => {
    await using tree = await createTemporaryTree();
    fill(tree, "open", 2);
    fill(tree, "shut", 2);
    await chmod(join(tree.root, "shut"), 0);
    await chmod(join(tree.root, "open/0000000.bin"), 0);
    await chmod(tree.path, 0o755);
    const backend = createFsBackend({ root: tree.root });
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      expect((await backend.list()).objects.map(({ key }) => key)).toEqual(["open/0000001.bin"]);
      await expect(backend.open("open/0000000.bin")).rejects.toMatchObject({
        code: "permission_denied",
      });
    } finally {
      if (isRoot) process.seteuid?.(0);
      await chmod(join(tree.root, "shut"), 0o755);
    }
  });

  test("shows names that begin with a dot if so configured, and never uploads in progress", async () => {
    await using tree = await createTemporaryTree();
    await tree.put(".well-known/a.txt", "a");
    await tree.put(".sluice-b.tmp", "b");
    const shown = createFsBackend({ root: tree.root, dotfiles: true });
    expect((await shown.list()).objects.map(({ key }) => key)).toEqual([".well-known/a.txt"]);
    await expect(shown.open(".sluice-b.tmp")).rejects.toMatchObject({ code: "not_found" });
    const hidden = createFsBackend({ root: tree.root });
    expect((await hidden.list({ prefix: ".well-known/" })).objects).toEqual([]);
    await expect(hidden.open(".well-known/a.txt")).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("a cursor", () => {
  test("is invalid_argument if of another root, another prefix or another hand", async () => {
    await using tree = await createTemporaryTree();
    fill(tree, "folder", 5);
    await mkdir(join(tree.root, "other"));
    const backend = createFsBackend({ root: tree.root });
    const { cursor = "" } = await backend.list({ limit: 2 });
    const elsewhere = createFsBackend({ root: join(tree.root, "folder") });
    const invalid = { code: "invalid_argument" };
    await expect(elsewhere.list({ cursor })).rejects.toMatchObject(invalid);
    await expect(backend.list({ cursor, prefix: "folder/" })).rejects.toMatchObject(invalid);
    for (const bad of [`${cursor}x`, cursor.slice(1), cursor.toUpperCase(), "", ".", "e30."])
      await expect(backend.list({ cursor: bad })).rejects.toMatchObject(invalid);
  });

  test("is invalid_argument even with a right check if its content differs", async () => {
    await using tree = await createTemporaryTree();
    const backend = createFsBackend({ root: tree.root });
    const scope = JSON.stringify([tree.root, ""]);
    const list = (content: string) =>
      backend.list({ cursor: formatCursor(Buffer.from(content).toString("base64url"), scope) });
    expect(await list('["walk",["a"]]')).toEqual({ objects: [] });
    for (const bad of ["no JSON", "7", "null", "{}", "[]", "[7]", '["walk","a"]', '["walk",[7]]'])
      await expect(list(bad)).rejects.toMatchObject({ code: "invalid_argument" });
  });
});

describe("walks between two pages", () => {
  test("are few: the one that waited longest is closed, and its cursor still works", async () => {
    await using tree = await createTemporaryTree();
    const keys = fill(tree, "folder", 30);
    const backend = createFsBackend({ root: tree.root });
    const starts = await Promise.all(Array.from({ length: 40 }, () => backend.list({ limit: 10 })));
    // root and folder, and two descriptors for each
    expect(tree.countOpen().directories).toBeLessThanOrEqual(16 * 4);
    for (const { cursor = "", objects } of starts) {
      const rest = await backend.list({ cursor });
      expect([...objects, ...rest.objects].map(({ key }) => key).toSorted()).toEqual(keys);
    }
    expect(tree.countOpen().directories).toBe(0);
  });

  test("are closed with the backend", async () => {
    await using tree = await createTemporaryTree();
    fill(tree, "folder", 30);
    const backend = createFsBackend({ root: tree.root });
    await backend.list({ limit: 10 });
    expect(tree.countOpen().directories).toBeGreaterThan(0);
    await backend.close?.();
    expect(tree.countOpen().directories).toBe(0);
    await backend.list({ limit: 10 });
    expect(tree.countOpen().directories).toBe(0);
  });

  test("are closed when a page is given up", async () => {
    await using tree = await createTemporaryTree();
    fill(tree, "folder", 300);
    const backend = createFsBackend({ root: tree.root });
    const { cursor = "" } = await backend.list({ limit: 10 });
    const caller = new AbortController();
    const page = backend.list({ cursor, signal: caller.signal });
    caller.abort(new Error("enough"));
    await expect(page).rejects.toThrow("enough");
    expect(tree.countOpen().directories).toBe(0);
    expect((await backend.list({ cursor })).objects).toHaveLength(290);
  });
});
