import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { afterAll, expect, test } from "vitest";
import { type ArchiveFormat, archiveOf } from "../src/index.ts";
import { uniquePaths } from "../src/names/entry-paths.ts";
import { createFileSet, openedOf, zeros } from "./file-set.ts";
import { hostileKeys } from "./hostile-keys.ts";
import { findPeers } from "./peers.ts";

const peers = findPeers();
const work = await mkdtemp(join(tmpdir(), "sluice-archive-"));
afterAll(() => rm(work, { recursive: true, force: true }));

const saved = new Map<string, Promise<string>>();

/** An archive of that name, which all peers of a format read. */
function save(
  format: ArchiveFormat,
  name: string,
  contents: Parameters<typeof createFileSet>[0],
): Promise<string> {
  const path = join(work, `${name}.${format}`);
  const write = async (): Promise<string> => {
    await pipeline(archiveOf(createFileSet(contents).files, { format }), createWriteStream(path));
    return path;
  };
  if (!saved.has(path)) saved.set(path, write());
  return saved.get(path)!;
}

/** All files below a folder with their text. */
async function filesIn(folder: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) continue;
    expect(entry.isFile()).toBe(true);
    files.set(relative(folder, path), await readFile(path, "utf8"));
  }
  return files;
}

/** Each hostile key with its own text, and the files that an extractor should make of them. */
const hostile = hostileKeys.map((key, index) => [key, `${index}: ${key}`] as const);
const pathOf = uniquePaths();
const expected = new Map(hostile.map(([key, text]) => [pathOf(key), text]));

for (const peer of peers) {
  test(`${peer.name} extracts 200 hostile names inside its folder, each with its bytes`, async () => {
    const archive = await save(peer.format, "hostile", hostile);
    const outer = await mkdtemp(join(work, "outer-"));
    const inner = join(outer, "a/b/inner");
    await mkdir(inner, { recursive: true });
    await writeFile(join(outer, "a/b/canary"), "untouched");
    await peer.extract(archive, inner);
    expect(await filesIn(inner)).toEqual(expected);
    expect(await readdir(join(outer, "a/b"))).toEqual(["canary", "inner"]);
    expect(await readdir(join(outer, "a"))).toEqual(["b"]);
    expect(await readdir(outer)).toEqual(["a"]);
    expect(await readFile(join(outer, "a/b/canary"), "utf8")).toBe("untouched");
  });

  test(
    `${peer.name} reads sizes and times, those of empty and of large files too`,
    { tags: "slow" },
    async () => {
      const lastModified = new Date("2019-12-31T23:59:58Z");
      const dated = async () => ({
        ...openedOf("dated", 1, [Uint8Array.of(65)]),
        info: { key: "dated", size: 1, lastModified },
      });
      const unknown = async () => openedOf("unknown", 70_000, [new Uint8Array(70_000)]);
      const archive = await save(peer.format, "sizes", {
        dated,
        "folder/empty": "",
        large: zeros(3_000_001),
        unknown,
      });
      expect(Object.fromEntries(await peer.sizes(archive))).toEqual({
        dated: 1,
        "folder/empty": 0,
        large: 3_000_001,
        unknown: 70_000,
      });
      const folder = await mkdtemp(join(work, "times-"));
      await peer.extract(archive, folder);
      const isDated = peer.name !== "Python's zipfile";
      const { mtime } = await stat(join(folder, "dated"));
      // Python's zipfile sets no times
      expect(!isDated || mtime.getTime() === lastModified.getTime()).toBe(true);
    },
  );
}

test("zip: sizes that no storage tells are read by each peer", { tags: "slow" }, async () => {
  const contents = {
    a: async () => openedOf("a", undefined, [new Uint8Array(100_000), new Uint8Array(5)]),
    b: async () => openedOf("b", undefined, []),
  };
  const archive = await save("zip", "unsized", contents);
  for (const peer of peers.filter(({ format }) => format === "zip"))
    expect([peer.name, ...(await peer.sizes(archive))]).toEqual([
      peer.name,
      ["a", 100_005],
      ["b", 0],
    ]);
});
