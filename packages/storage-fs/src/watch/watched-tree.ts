import { type BigIntStats, type Dirent, type FSWatcher, lstat, stat, watch } from "node:fs";
import { promisify } from "node:util";
import { SluiceError } from "@sluice/core";
import { backgroundClock, onAbort, sleep } from "@sluice/core/internal";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { createPause, createWatches, type Watches } from "@sluice/storage/plugin";
import { openDirectory } from "../read/open-directory.ts";
import { closeFile, openFile } from "../read/open-file.ts";
import { type FsRoot, toDirectoryPath, unservableReason } from "../root/root.ts";
import { isVolumeLink } from "../root/volume.ts";

const maxFiles = 100_000;
/** How many files are looked at together. */
const together = 32;
const lstatAsync = promisify(lstat);
const statAsync = promisify(stat);

interface TreeChanges {
  readonly changed: Set<string>;
  readonly removed: Set<string>;
}

/** The part of a tree that a prefix reaches, as it was when it was read last. */
interface WatchedTree {
  /** Reads again everything, or the directories that the system spoke of, and tells what is different. */
  refresh(all: boolean): Promise<TreeChanges>;
  close(): void;
}

interface Folder {
  /** By name: a mark that changes whenever the content does. */
  files: ReadonlyMap<string, string>;
  /** By name of a folder in it: which one it is, since another may come in its place under its name. */
  folders: ReadonlyMap<string, string>;
  readonly watcher: FSWatcher | undefined;
}

/**
 * Watches every directory for itself: a recursive watch loses sight of files that were replaced by
 * rename. Events of the system only name directories to read again, and call `wake`.
 */
function createWatchedTree(root: FsRoot, prefix: string, wake: () => void): WatchedTree {
  const folders = new Map<string, Folder>();
  /** Directories to read again, with the names that the system gave. */
  let dirty = new Map<string, Set<string>>();
  let fileCount = 0;
  let closed = false;

  const markDirty = (key: string, name: string | null): void => {
    if (closed) return;
    const names = dirty.get(key) ?? new Set();
    if (name !== null) names.add(name);
    dirty.set(key, names);
    wake();
  };
  const watchFolder = (key: string): FSWatcher | undefined => {
    try {
      return watch(toDirectoryPath(root, key), { persistent: false })
        .on("change", (_, name) => markDirty(key, name === null ? null : String(name)))
        .on("error", () => markDirty(key, null));
    } catch {
      // too many watches, or gone again: reading everything now and then makes up for it
      return undefined;
    }
  };

  const closeAll = (): void => {
    for (const { watcher } of folders.values()) watcher?.close();
    folders.clear();
  };

  const forget = (key: string, changes: TreeChanges): void => {
    const folder = folders.get(key);
    if (folder === undefined) return;
    folders.delete(key);
    folder.watcher?.close();
    fileCount -= folder.files.size;
    for (const name of folder.files.keys()) changes.removed.add(key + name);
    for (const name of folder.folders.keys()) forget(`${key}${name}/`, changes);
  };

  const add = (key: string): Folder => {
    // watched before it is read, so that nothing falls between the two
    const folder = { files: new Map(), folders: new Map(), watcher: watchFolder(key) };
    folders.set(key, folder);
    return folder;
  };

  /** Compares a directory with its known state. `touched` names are reported in any case. */
  const compare = async (
    key: string,
    touched: ReadonlySet<string>,
    changes: TreeChanges,
  ): Promise<void> => {
    const folder = folders.get(key) ?? add(key);
    const now = await readFolder(root, prefix, key);
    if (now === undefined) return forget(key, changes);
    fileCount += now.files.size - folder.files.size;
    if (fileCount > maxFiles)
      throw new SluiceError("too_large", `fs: watch: more than ${maxFiles} files; use a prefix`);
    for (const [name, print] of now.files)
      if (touched.has(name) || folder.files.get(name) !== print) changes.changed.add(key + name);
    for (const name of folder.files.keys())
      if (!now.files.has(name)) changes.removed.add(key + name);
    folder.files = now.files;
    const before = folder.folders;
    for (const [name, identity] of before)
      if (now.folders.get(name) !== identity) forget(`${key}${name}/`, changes);
    const added = [...now.folders].filter(([name, identity]) => before.get(name) !== identity);
    folder.folders = now.folders;
    for (const [name] of added) {
      if (closed) return;
      await compare(`${key}${name}/`, new Set(), changes);
    }
  };

  return {
    async refresh(all) {
      const changes: TreeChanges = { changed: new Set(), removed: new Set() };
      const work = dirty;
      dirty = new Map();
      if (all) for (const key of ["", ...folders.keys()]) work.set(key, work.get(key) ?? new Set());
      for (const [key, touched] of work) {
        if (closed) break;
        // entries that are gone were reported with their directory
        if (key === "" || folders.has(key)) await compare(key, touched, changes);
      }
      // a folder in the place of another may have the same names
      for (const key of changes.changed) changes.removed.delete(key);
      // closed while it was read: watches armed in the meantime must go as well
      if (closed) closeAll();
      return changes;
    },
    close() {
      closed = true;
      closeAll();
    },
  };
}

/** Current entries of a directory, as far as the prefix reaches; `undefined` when it is gone. */
async function readFolder(
  root: FsRoot,
  prefix: string,
  key: string,
): Promise<Pick<Folder, "files" | "folders"> | undefined> {
  const directory = await openDirectory(root, toDirectoryPath(root, key), key);
  if (directory === undefined) return undefined;
  const files = new Map<string, string>();
  const folders = new Map<string, string>();
  const add = async ({ name }: Dirent): Promise<void> => {
    const stats = await lookAt(root, directory.inside + name, key + name);
    if (stats?.isDirectory()) folders.set(name, `${stats.dev}:${stats.ino}`);
    else if (stats?.isFile() && (key + name).startsWith(prefix)) files.set(name, printOf(stats));
  };
  try {
    let looks: Promise<void>[] = [];
    for (
      let entry = await directory.entries.read();
      entry;
      entry = await directory.entries.read()
    ) {
      const found = key + entry.name;
      if (unservableReason(root, found) !== undefined) continue;
      const isReached =
        found.startsWith(prefix) || (!entry.isFile() && reaches(prefix, `${found}/`));
      if (!isReached || looks.push(add(entry)) < together) continue;
      await Promise.all(looks);
      looks = [];
    }
    await Promise.all(looks);
    return { files, folders };
  } finally {
    await directory.close();
  }
}

/** True when a key that starts with the prefix can lie in the folder. */
function reaches(prefix: string, folder: string): boolean {
  return folder.startsWith(prefix) || prefix.startsWith(folder);
}

/** Facts of a file or folder, even of one that a name of a mounted volume leads to; `undefined` for all else. */
async function lookAt(root: FsRoot, path: string, key: string): Promise<BigIntStats | undefined> {
  try {
    const stats = await lstatAsync(path, { bigint: true });
    if (!stats.isSymbolicLink()) return stats;
    if (!(await isVolumeLink(path))) return undefined;
    const linked = await statAsync(path, { bigint: true });
    // where a folder lies is checked when it is opened
    if (linked.isDirectory()) return linked;
    const file = await openFile(root, key, "fs: watch", undefined);
    await closeFile(root, file);
    return file.key === key ? file.stats : undefined;
  } catch {
    return undefined;
  }
}

/** A mark that changes whenever the content of a file does. */
function printOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

/** Changes gather for at least so long before directories are read again. */
const gatherMs = 50;
/** A change waits no longer than this, however slow reading is. */
const maxGatherMs = 1000;
/** Everything is read again this often: change events of systems have gaps. */
const rereadMs = 30_000;

/** Creates the watches of a root. Each watch remembers a line about every file it reaches. */
export function createFsWatch(root: FsRoot): Watches {
  async function* run({ prefix = "", cursor, signal }: WatchOptions): AsyncGenerator<ChangeBatch> {
    if (cursor !== undefined)
      throw new SluiceError("invalid_argument", "fs: watch: the cursor is not one of this store");
    const pause = createPause(signal);
    const tree = createWatchedTree(root, prefix, pause.cutShort);
    onAbort(signal, () => tree.close());
    await tree.refresh(true);
    signal.throwIfAborted();
    yield {};
    let nextReread = performance.now() + rereadMs;
    let lastedMs = 0;
    for (;;) {
      await pause.wait(nextReread - performance.now());
      // a folder that is slow to read and changes all the time is read a fifth of the time
      const gather = Math.min(Math.max(gatherMs, 4 * lastedMs), maxGatherMs);
      await sleep(gather, signal, backgroundClock);
      const startedAt = performance.now();
      const isDue = startedAt >= nextReread;
      const { changed, removed } = await tree.refresh(isDue);
      signal.throwIfAborted();
      const now = performance.now();
      lastedMs = now - startedAt;
      if (isDue) nextReread = now + rereadMs;
      if (changed.size + removed.size > 0) yield { changed: [...changed], removed: [...removed] };
    }
  }

  return createWatches(run);
}
