// `sluice sync` from our server, with and without `--delete`.
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { inParallel } from "../src/sync/in-parallel.ts";
import { PathSet } from "../src/sync/path-set.ts";
import { runHere, serveHere } from "./run-here.ts";
import type { Run, Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
let served: Served;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-sync-"));
  await writeTree({
    "files/docs/a.pdf": "a",
    "files/docs/deep/b.txt": "b",
    "files/docs/deep/c d.txt": "c",
    "files/other.txt": "other",
  });
  served = await serveHere(join(root, "files"));
});
afterEach(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

async function writeTree(tree: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, content] of Object.entries(tree)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), content);
  }
}

async function treeOf(folder: string): Promise<Record<string, string>> {
  const tree: Record<string, string> = {};
  for (const entry of await readdir(join(root, folder), { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name);
      tree[path.slice(join(root, folder).length + 1)] = await readFile(path, "utf8");
    }
  return tree;
}

const docs = { "a.pdf": "a", "deep/b.txt": "b", "deep/c d.txt": "c" };

const sync = (...args: readonly string[]): Promise<Run> =>
  runHere(["sync", served.url, ...args], { cwd: root });

const linesOf = ({ stdout }: Run): readonly string[] => stdout.split("\n").slice(0, -1).toSorted();

test.each(["docs/", "docs", "files://local/docs", "files://local/docs/"])(
  "%s becomes the same here, and a second run fetches nothing",
  async (source) => {
    const first = await sync(source, "copy");
    expect([first.status, await treeOf("copy")]).toEqual([0, docs]);
    expect(linesOf(first)).toEqual(["copy a.pdf", "copy deep/b.txt", "copy deep/c d.txt"]);
    expect(first.stderr).toMatch(/^3 copied: 3 B in /);
    const again = await sync(source, "copy");
    expect([again.status, again.stdout]).toEqual([0, ""]);
    expect(again.stderr).toMatch(/^0 copied, 3 the same: /);
  },
);

test("/ is everything, and filters choose from it", async () => {
  await sync("/", "copy", "--exclude", "*.pdf", "--include", "docs/");
  expect(await treeOf("copy")).toEqual({ "docs/deep/b.txt": "b", "docs/deep/c d.txt": "c" });
});

test("a file that differs is replaced, and another one stays without --delete", async () => {
  await writeTree({ "copy/a.pdf": "mine", "copy/extra.txt": "extra" });
  const run = await sync("docs/", "copy");
  expect(run.status).toBe(0);
  expect(await treeOf("copy")).toEqual({ ...docs, "extra.txt": "extra" });
});

test("--dry-run tells the changes and makes none", async () => {
  await writeTree({ "copy/a.pdf": "mine", "copy/extra.txt": "extra" });
  const before = await treeOf("copy");
  const run = await sync("docs/", "copy", "-n", "--delete");
  expect(run.status).toBe(0);
  expect(linesOf(run)).toEqual([
    "copy a.pdf",
    "copy deep/b.txt",
    "copy deep/c d.txt",
    "delete extra.txt",
  ]);
  expect(run.stderr).toMatch(/^3 to copy: .*\nnothing was changed: --dry-run\n$/);
  expect(await treeOf("copy")).toEqual(before);
  const json = await sync("docs/", "copy", "-n", "--delete", "--json");
  expect(linesOf(json).map((line) => JSON.parse(line))).toContainEqual({
    action: "delete",
    path: "extra.txt",
  });
});

test("--delete takes what the server does not list, with folders that are empty then", async () => {
  await writeTree({ "copy/extra.txt": "x", "copy/old/er/y.txt": "y", "copy/deep/z.txt": "z" });
  const run = await sync("docs/", "copy", "--delete", "--yes");
  expect([run.status, await treeOf("copy")]).toEqual([0, docs]);
  expect(linesOf(run)).toContain("delete old/er/y.txt");
  expect((await readdir(join(root, "copy"))).toSorted()).toEqual(["a.pdf", "deep"]);
});

test("--delete leaves alone hidden files, excluded ones, links, and what links lead to", async () => {
  const mine = { "copy/.hidden": "h", "copy/.git/x": "x", "copy/keep/k.tmp": "k" };
  await writeTree({ ...mine, "elsewhere/e.txt": "e" });
  await symlink("../elsewhere", join(root, "copy/link"));
  await symlink("../elsewhere/e.txt", join(root, "copy/link.txt"));
  const run = await sync("docs/", "copy", "--delete", "--yes", "--exclude", "*.tmp");
  expect([run.status, run.stdout.match(/^delete/gm)]).toEqual([0, null]);
  const kept = { ".hidden": "h", ".git/x": "x", "keep/k.tmp": "k" };
  expect(await treeOf("copy")).toEqual({ ...docs, ...kept });
  expect(await treeOf("elsewhere")).toEqual({ "e.txt": "e" });
});

test("--delete asks, and without a terminal nothing is deleted unless --yes is given", async () => {
  await writeTree({ "copy/extra.txt": "x" });
  const run = await sync("docs/", "copy", "--delete");
  expect(run.stderr).toMatch(
    /^sluice: no terminal to ask whether to delete 1 file below copy; see them with --dry-run, then pass --yes$/m,
  );
  expect(run.status).toBe(exitCodes.usage.status);
  expect(await treeOf("copy")).toEqual({ ...docs, "extra.txt": "x" });
});

test("nothing is deleted after a fault, and the exit code tells it", async () => {
  await writeTree({ "copy/extra.txt": "x", "copy/deep": "a file in place of a folder" });
  const run = await sync("docs/", "copy", "--delete", "--yes");
  expect(run.stderr).toMatch(/deep" is not a folder/);
  expect(run.stderr).toContain("nothing was deleted: some files were refused\n");
  expect(run.status).toBe(exitCodes.target.status);
  expect(await treeOf("copy")).toMatchObject({
    "extra.txt": "x",
    deep: expect.stringContaining("file"),
  });
});

test("a source that lists nothing deletes nothing", async () => {
  await writeTree({ "copy/extra.txt": "x" });
  const run = await sync("no/such/", "copy", "--delete", "--yes");
  expect([run.status, run.stderr]).toEqual([
    exitCodes.notFound.status,
    expect.stringMatching(/lists nothing for "no\/such\/"/),
  ]);
  expect(await treeOf("copy")).toEqual({ "extra.txt": "x" });
});

test.each([
  ["a file as the folder", ["docs/", "files/other.txt"], /other\.txt is not a folder/],
  ["--yes alone", ["docs/", "copy", "--yes"], /--yes has no effect without --delete/],
  ["no folder", ["docs/"], /missing required argument 'folder'/],
])("%s is refused with one line", async (_, args, said) => {
  const run = await sync(...args);
  expect([run.status, run.stdout]).toEqual([exitCodes.usage.status, ""]);
  expect(run.stderr).toMatch(said);
  expect(run.stderr).toMatch(/^sluice: [^\n]+\n$/);
});

test("a set of paths has what was added, however many there are", () => {
  const paths = new PathSet();
  for (let n = 0; n < 100_000; n += 1) expect(paths.add(`folder/${n}`)).toBe(true);
  expect(paths.add("folder/99999")).toBe(false);
  for (let n = 0; n < 100_000; n += 1)
    if (!paths.has(`folder/${n}`) || paths.has(`other/${n}`)) throw new Error(`path ${n}`);
});

test("the first fault of work in parallel ends the rest and the list", async () => {
  let isReturned = false;
  async function* numbers(): AsyncGenerator<number> {
    try {
      for (let n = 0; ; n += 1) yield n;
    } finally {
      isReturned = true;
    }
  }
  const fault = new Error("the third");
  const ended: unknown[] = [];
  const run = inParallel(numbers(), 3, new AbortController().signal, async (n, signal) => {
    if (n === 2) throw fault;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    ended.push(signal.reason);
  });
  await expect(run).rejects.toBe(fault);
  expect([isReturned, ended]).toEqual([true, [fault, fault]]);
});
