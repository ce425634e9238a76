import { type FSWatcher, lstat, watch } from "node:fs";
import { promisify } from "node:util";
import { SluiceError } from "@sluice/core";
import { backgroundClock, onAbort, sleep } from "@sluice/core/internal";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { createPause, createWatches, type Watches } from "@sluice/storage/plugin";
import { openDirectory } from "../read/open-directory.ts";
import { isServable, type FsRoot, toDirectoryPath } from "../root/root.ts";

const maxFiles = 100_000;
/** How many files are looked at together. */
const together = 32;
const lstatAsync = promisify(lstat);

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
  /** Names of the folders in it. */
  folders: ReadonlySet<string>;
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
    for (const name of folder.folders) forget(`${key}${name}/`, changes);
  };

  const add = (key: string): Folder => {
    // watched before it is read, so that nothing falls between the two
    const folder = { files: new Map(), folders: new Set<string>(), watcher: watchFolder(key) };
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
    for (const name of folder.folders)
      if (!now.folders.has(name)) forget(`${key}${name}/`, changes);
    const added = [...now.folders].filter((name) => !folder.folders.has(name));
    folder.folders = now.folders;
    for (const name of added) {
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
  const path = toDirectoryPath(root, key);
  const directory = await openDirectory(root, path, path);
  if (directory === undefined) return undefined;
  const files = new Map<string, string>();
  const inner = new Set<string>();
  const addFile = async (name: string): Promise<void> => {
    const print = await toPrint(directory.inside + name);
    if (print !== undefined) files.set(name, print);
  };
  try {
    let looks: Promise<void>[] = [];
    for (
      let entry = await directory.entries.read();
      entry;
      entry = await directory.entries.read()
    ) {
      const { name } = entry;
      if (!isServable(root, key + name)) continue;
      if (entry.isDirectory()) {
        if (reaches(prefix, `${key}${name}/`)) inner.add(name);
      } else if ((key + name).startsWith(prefix)) {
        if (looks.push(addFile(name)) < together) continue;
        await Promise.all(looks);
        looks = [];
      }
    }
    await Promise.all(looks);
    return { files, folders: inner };
  } finally {
    await directory.close();
  }
}

/** True when a key that starts with the prefix can lie in the folder. */
function reaches(prefix: string, folder: string): boolean {
  return folder.startsWith(prefix) || prefix.startsWith(folder);
}

/** A mark that changes whenever the content of a file does; `undefined` for anything but a file. */
async function toPrint(path: string): Promise<string | undefined> {
  try {
    const stats = await lstatAsync(path, { bigint: true });
    return stats.isFile()
      ? `${stats.ino}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}`
      : undefined;
  } catch {
    return undefined;
  }
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
