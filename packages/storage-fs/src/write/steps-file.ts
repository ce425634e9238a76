import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, lstat, opendir, rename, rm } from "node:fs/promises";
import { openHandle } from "@sluice/core/internal/node";
import type { StepOptions } from "@sluice/storage";
import { systemCode } from "../root/fs-error.ts";
import { stepsName, temporaryName } from "../root/names.ts";
import type { FsRoot } from "../root/root.ts";
import {
  againWithFolder,
  openTargetDirectory,
  removeEmptyFolders,
  type TargetDirectory,
} from "./target-directory.ts";

const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;

// A file has one name while no writer has it, and another for each writer. So a rename decides between two writers, and
// the name tells the next one whether the writer before it has ended.

interface StepsFile {
  readonly directory: TargetDirectory;
  /** Bytes that it had when it was opened. */
  readonly size: number;
  /**
   * Takes the file from every other writer. One that did not end may still write once into what it has open, however
   * long it was stopped: then this writer gets a copy. Rejects with `overtaken` when another writer was first.
   */
  claim(ended: AbortSignal, overtaken: () => Error): Promise<OwnSteps>;
  /** Closes it. It has its common name then, unless `own` has no such name any more. */
  close(own: OwnSteps | undefined): Promise<void>;
}

/** A file that one writer has. */
export interface OwnSteps {
  readonly path: string;
  readonly file: FileHandle;
  readonly inode: bigint;
  /** It lies on a disk of this machine. */
  readonly isLocal: boolean;
}

/**
 * Makes the file of a new object, or opens that of `options.id`. Rejects with the system's ENOENT
 * if there is none.
 */
export async function openSteps(
  root: FsRoot,
  key: string,
  id: string,
  options: StepOptions,
): Promise<StepsFile> {
  const isNew = options.id === undefined;
  const isPrivate = options.private === true;
  const attempt = async (): Promise<StepsFile> => {
    const purpose = isNew ? (isPrivate ? "write private" : "write") : "remove";
    const directory = await openTargetDirectory(root, key, purpose);
    try {
      const file = isNew
        ? await makeFile(directory, digestOf(key, id), isPrivate ? 0o600 : 0o666)
        : await findFile(directory, digestOf(key, id));
      return await toStepsFile(root, directory, file);
    } catch (error) {
      await directory.close();
      throw error;
    }
  };
  // a file that was renamed by now is looked for again
  return againWithFolder(attempt, isNew ? undefined : 3);
}

/** Removes the file of an object in steps, whichever writer has it. */
export async function removeSteps(root: FsRoot, key: string, id: string): Promise<void> {
  try {
    const directory = await openTargetDirectory(root, key, "remove");
    try {
      for (const name of await namesOf(directory, digestOf(key, id)))
        await rm(directory.inside + name, { force: true });
      await directory.sync();
    } finally {
      await directory.close();
    }
    await removeEmptyFolders(root, key);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
}

interface FoundSteps {
  readonly digest: string;
  readonly path: string;
  readonly file: FileHandle;
  /** This writer made it, and has it. */
  readonly isOwn: boolean;
  /** A writer before had it, and did not end. */
  readonly isLeft: boolean;
}

async function makeFile(
  directory: TargetDirectory,
  digest: string,
  mode: number,
): Promise<FoundSteps> {
  const path = directory.inside + ownName(digest);
  const file = await openHandle(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  try {
    await directory.sync();
  } catch (error) {
    await file.close();
    throw error;
  }
  return { digest, path, file, isOwn: true, isLeft: false };
}

async function findFile(directory: TargetDirectory, digest: string): Promise<FoundSteps> {
  const common = directory.inside + stepsName(digest);
  let path = common;
  let file = await openQuietly(common);
  if (!file) {
    path = (await longestOf(directory, digest)) ?? common;
    file = await openHandle(path, O_RDWR | O_NOFOLLOW);
  }
  try {
    // bytes that a stopped process left are kept from now on
    await file.datasync();
  } catch (error) {
    await file.close();
    throw error;
  }
  return { digest, path, file, isOwn: false, isLeft: path !== common };
}

async function toStepsFile(
  root: FsRoot,
  directory: TargetDirectory,
  { digest, path, file, isOwn, isLeft }: FoundSteps,
): Promise<StepsFile> {
  const { ino: inode, dev, size, mode } = await file.stat({ bigint: true });
  const isLocal = dev === root.localDevice;
  const common = directory.inside + stepsName(digest);
  const ownPath = isOwn ? path : directory.inside + ownName(digest);
  let copied: FileHandle | undefined;

  return {
    directory,
    size: Number(size),
    async claim(ended, overtaken) {
      if (isOwn) return { path, file, inode, isLocal };
      if (!(await renamed(path, ownPath))) throw overtaken();
      const stats = await lstat(ownPath, { bigint: true });
      if (stats.ino !== inode || stats.size !== size) {
        if (!isLeft) await renamed(ownPath, common);
        throw overtaken();
      }
      if (!isLeft) return { path: ownPath, file, inode, isLocal };
      for (const name of await namesOf(directory, digest))
        if (directory.inside + name !== ownPath) await rm(directory.inside + name, { force: true });
      const temporary = directory.inside + temporaryName();
      try {
        const flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
        copied = await openHandle(temporary, flags, Number(mode) & 0o777);
        await copyBytes(file, copied, Number(size), ended);
        await copied.sync();
        await rename(temporary, ownPath);
        // a power cut must not bring back the file that was copied: steps keep bytes in this one
        await directory.sync();
        // another writer may have taken the file by now
        if ((await namesOf(directory, digest)).length > 1) {
          await rm(ownPath, { force: true });
          throw overtaken();
        }
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      const { ino } = await copied.stat({ bigint: true });
      return { path: ownPath, file: copied, inode: ino, isLocal };
    },
    async close(owned) {
      try {
        if (owned ?? isOwn) {
          // the writer that resumes it counts all of its bytes, also after a power cut
          await (owned?.file ?? file).datasync();
          await renamed(ownPath, common);
        }
      } finally {
        await file.close();
        await copied?.close();
        await directory.close();
      }
    },
  };
}

const copiedBytes = 1024 * 1024;

async function copyBytes(
  from: FileHandle,
  to: FileHandle,
  size: number,
  ended: AbortSignal,
): Promise<void> {
  const buffer = new Uint8Array(Math.min(size, copiedBytes));
  for (let at = 0; at < size;) {
    ended.throwIfAborted();
    const length = Math.min(size - at, buffer.length);
    const { bytesRead } = await from.read(buffer, 0, length, at);
    if (bytesRead === 0) throw new Error("the file became shorter");
    for (let written = 0; written < bytesRead;) {
      const rest = bytesRead - written;
      written += (await to.write(buffer, written, rest, at + written)).bytesWritten;
    }
    at += bytesRead;
  }
}

/** The path of the file of an object that a writer left. Of two claims at once there may be two, and one has all bytes. */
async function longestOf(directory: TargetDirectory, digest: string): Promise<string | undefined> {
  let longest: { readonly path: string; readonly size: number } | undefined;
  for (const name of await namesOf(directory, digest)) {
    const path = directory.inside + name;
    const { size } = await lstat(path);
    if (!longest || size > longest.size) longest = { path, size };
  }
  return longest?.path;
}

async function namesOf(directory: TargetDirectory, digest: string): Promise<string[]> {
  const names: string[] = [];
  // a large folder is not held in memory
  for await (const { name } of await opendir(directory.inside))
    if (name === stepsName(digest) || isOwnName(name, digest)) names.push(name);
  return names;
}

/** False when there is no such file. */
async function renamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    return false;
  }
}

async function openQuietly(path: string): Promise<FileHandle | undefined> {
  try {
    return await openHandle(path, O_RDWR | O_NOFOLLOW);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    return undefined;
  }
}

/** A caller has the id, so the name does not contain it: whatever it is, it leads to no other file. */
function digestOf(key: string, id: string): string {
  return createHash("sha256").update(`${id} ${key}`).digest("hex");
}

function ownName(digest: string): string {
  return stepsName(`${digest}-${randomBytes(8).toString("hex")}`);
}

function isOwnName(name: string, digest: string): boolean {
  return name.startsWith(stepsName(digest).slice(0, -".steps".length)) && name.endsWith(".steps");
}
