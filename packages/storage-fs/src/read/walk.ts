import { type Dirent, opendir } from "node:fs";
import { promisify } from "node:util";
import { SluiceError } from "@sluice/core";
import { type UnlistedReason, UnlistedTally } from "@sluice/storage/plugin";
import { type OpenDirectory, openDirectory } from "./open-directory.ts";
import { type FsRoot, toDirectoryPath, unservableReason } from "../root/root.ts";
import { isVolumeLink } from "../root/volume.ts";
import { lookFault } from "../root/fs-error.ts";

const opendirAsync = promisify(opendir);

/** How many of the names visited last a position keeps for each directory. */
const anchors = 3;

/**
 * Where a walk stands: for each directory, from the start inwards, the names it visited last.
 * The last name of all but the innermost is the directory that comes next.
 */
export type WalkPosition = readonly (readonly string[])[];

/** Something in the tree that may be an object. */
export interface FoundFile {
  readonly key: string;
  /** Where to look at it; valid until what was given to {@link FileWalk.hold} settles. */
  readonly path: string;
  /** It is a name of a mounted volume. */
  readonly isLink: boolean;
}

/** One pass through the files of a tree, in the order in which the file system gives them. */
export interface FileWalk {
  /** The next file, or `undefined` at the end. */
  next(signal: AbortSignal | undefined): Promise<FoundFile | undefined>;
  /** Keeps the directory of the file found last open until `use` settles. */
  hold(use: Promise<unknown>): void;
  /** Counts what the walk met and cannot give. */
  readonly unlisted: UnlistedTally;
  /** Where it stands; a new walk from there finds what this one has not found yet. */
  position(): WalkPosition;
  close(): Promise<void>;
}

interface Level {
  /** "" or "a/b/". */
  readonly key: string;
  readonly path: string;
  readonly directory: OpenDirectory;
  readonly uses: Set<Promise<unknown>>;
  /** The names visited last, the latest at the end. */
  readonly visited: string[];
  /** Entries that an earlier walk had visited when it stood here. */
  readonly resume: WalkStart | undefined;
}

interface WalkStart {
  readonly names: readonly string[];
  readonly inner: WalkPosition;
  /** One of the names was found: the rest is new. */
  located: boolean;
}

/**
 * Starts a walk over the files whose keys start with `prefix`; only directories that can hold
 * one are read. In memory it has an open directory for each level, whatever they hold.
 *
 * From a position, the directories on the way are read again up to one of the names visited
 * last. File systems keep the order of the entries that stay, so what is behind that name is
 * what was not found yet. When all of the names are gone, the directory is walked again from
 * its start: a file may be found twice, but not missed.
 */
export function createWalk(root: FsRoot, prefix: string, from: WalkPosition = []): FileWalk {
  const start = prefix.slice(0, prefix.lastIndexOf("/") + 1);
  const levels: Level[] = [];
  const unlisted = new UnlistedTally();
  let started = false;

  const enter = async (key: string, path: string, position: WalkPosition): Promise<boolean> => {
    const directory = await openDirectory(root, path, key);
    if (directory === undefined) return false;
    const [names, ...inner] = position;
    const resume = names && { names, inner, located: false };
    levels.push({ key, path, directory, uses: new Set(), visited: [...(names ?? [])], resume });
    return true;
  };

  const begin = async (): Promise<void> => {
    if (start !== "" && unservableReason(root, start.slice(0, -1)) !== undefined) return;
    const isThere = await enter(start, toDirectoryPath(root, start), from);
    if (!isThere && start === "")
      throw new SluiceError("unavailable", "fs: list: the root is gone or cannot be read");
  };

  const visit = async (level: Level, entry: Dirent): Promise<FoundFile | undefined> => {
    const { name } = entry;
    const key = level.key + name;
    if (!key.startsWith(prefix)) return undefined;
    let inner: WalkPosition = [];
    if (level.resume !== undefined) {
      if (level.resume.names.includes(name)) {
        level.resume.located = true;
        if (name === level.resume.names.at(-1)) ({ inner } = level.resume);
        if (inner.length === 0) return undefined;
      } else if (!level.resume.located) return undefined;
    }
    const path = level.directory.inside + name;
    const reason = unservableReason(root, key) ?? (await kindFault(entry, path));
    if (reason === "hidden") return undefined;
    // even one that is not listed, so that a new walk does not count it again
    remember(level.visited, name);
    if (reason !== undefined) {
      unlisted.add(reason);
      return undefined;
    }
    if (!entry.isFile() && (await enter(`${key}/`, path, inner))) return undefined;
    if (!entry.isDirectory()) return { key, path, isLink: entry.isSymbolicLink() };
    unlisted.add(await folderFault(path));
    return undefined;
  };

  return {
    async next(signal) {
      if (!started) {
        started = true;
        await begin();
      }
      for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
        const entry = await level.directory.entries.read();
        signal?.throwIfAborted();
        if (entry !== null) {
          const file = await visit(level, entry);
          if (file !== undefined) return file;
        } else {
          levels.pop();
          await leave(level);
          if (level.resume?.located === false) await enter(level.key, level.path, []);
        }
      }
      return undefined;
    },
    hold(use) {
      const uses = levels.at(-1)?.uses;
      const forget = (): void => void uses?.delete(use);
      uses?.add(use);
      use.then(forget, forget);
    },
    unlisted,
    position: () => levels.map(({ visited }) => [...visited]),
    async close() {
      await Promise.all(levels.splice(0).map(leave));
    },
  };
}

function remember(visited: string[], name: string): void {
  const before = visited.indexOf(name);
  if (before !== -1) visited.splice(before, 1);
  if (visited.push(name) > anchors) visited.shift();
}

async function leave({ directory, uses }: Level): Promise<void> {
  await Promise.allSettled(uses);
  await directory.close();
}

/** Why an entry of this kind is not listed. */
async function kindFault(entry: Dirent, path: string): Promise<"link" | "special" | undefined> {
  if (entry.isFile() || entry.isDirectory() || isUnknown(entry)) return undefined;
  if (!entry.isSymbolicLink()) return "special";
  return (await isVolumeLink(path)) ? undefined : "link";
}

/** Why a folder could not be entered; `undefined` if it was removed or moved. */
async function folderFault(path: string): Promise<UnlistedReason | undefined> {
  try {
    await (await opendirAsync(path)).close();
    return undefined;
  } catch (error) {
    return lookFault(error, path);
  }
}

/** Some file systems do not say what an entry is. */
function isUnknown(entry: Dirent): boolean {
  return !(
    entry.isFile() ||
    entry.isDirectory() ||
    entry.isSymbolicLink() ||
    entry.isFIFO() ||
    entry.isSocket() ||
    entry.isCharacterDevice() ||
    entry.isBlockDevice()
  );
}
