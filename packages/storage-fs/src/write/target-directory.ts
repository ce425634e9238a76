import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, realpath, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
import { systemCode } from "../root/fs-error.ts";
import { nameOfDescriptor, type FsRoot } from "../root/root.ts";

const { O_RDONLY, O_NOFOLLOW, O_DIRECTORY } = constants;
const flags = O_RDONLY | O_NOFOLLOW | O_DIRECTORY;

/** The directory that an object is written to. */
export interface TargetDirectory {
  /** Prefix of the paths of its files; on Linux it stays with the directory, wherever that is moved. */
  readonly inside: string;
  /** Makes names that were added or replaced survive a power cut. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The operation in the directory; a write creates a missing one, for private files with access only
 * for this user.
 */
type TargetPurpose = "write" | "write private" | "remove";

/**
 * Opens the directory of a key. Links on the way are refused, and on Linux each step starts at the
 * descriptor of the one before, so that nothing is made or removed outside. Rejects with the
 * system's ENOENT when it is missing and nothing is to be written.
 */
export function openTargetDirectory(
  root: FsRoot,
  key: string,
  purpose: TargetPurpose,
): Promise<TargetDirectory> {
  return openDirectoryBelow(root, key.split("/").slice(0, -1), purpose);
}

/** The same for the names of the directory itself. */
export async function openDirectoryBelow(
  root: Pick<FsRoot, "path" | "namesDescriptors">,
  names: readonly string[],
  purpose: TargetPurpose,
): Promise<TargetDirectory> {
  if (!root.namesDescriptors) return openByPath(root.path, names, purpose);

  let handle = await openHandle(root.path, flags);
  try {
    for (const name of names) {
      const step = await openStep(`/proc/self/fd/${handle.fd}/${name}`, purpose);
      await handle.close();
      handle = step;
    }
    const path = join(root.path, ...names);
    const name = nameOfDescriptor(handle.fd);
    if (name === `${path} (deleted)`) throw Object.assign(new Error(name), { code: "ENOENT" });
    if (name !== path) throw moved(purpose);
  } catch (error) {
    await handle.close();
    throw error;
  }
  return {
    inside: `/proc/self/fd/${handle.fd}/`,
    sync: () => handle.sync(),
    close: () => handle.close(),
  };
}

/** How often a folder may vanish before a file is in it. */
const maxAttempts = 20;

/**
 * Makes a file in a folder that is made for it. Once the file is there its folder stays; before, a removal nearby may
 * take the empty folder away.
 */
export async function againWithFolder<T>(
  attempt: () => Promise<T>,
  attempts: number = maxAttempts,
): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await attempt();
    } catch (error) {
      if (systemCode(error) !== "ENOENT" || tries === attempts) throw error;
    }
}

/**
 * Removes the folders of a key as far as they are empty: they are made with the first file in them
 * and go with the last, since a backend shows no empty folder.
 */
export async function removeEmptyFolders(root: FsRoot, key: string): Promise<void> {
  const names = key.split("/").slice(0, -1);
  try {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      const parent = await openTargetDirectory(root, [...names, name].join("/"), "remove");
      try {
        await rmdir(parent.inside + name);
      } finally {
        await parent.close();
      }
    }
  } catch {
    // it is not empty, or others are at work in it: it stays, and does no harm
  }
}

async function openStep(path: string, purpose: TargetPurpose): Promise<FileHandle> {
  try {
    return await openHandle(path, flags);
  } catch (error) {
    const code = systemCode(error);
    // a link says ENOTDIR as a file does, but what lies behind it can still be read
    if (code === "ENOTDIR" && (await lstat(path)).isSymbolicLink()) throw moved(purpose);
    if (code !== "ENOENT" || purpose === "remove") throw error;
  }
  await make(path, purpose);
  return openHandle(path, flags);
}

async function make(path: string, purpose: TargetPurpose): Promise<void> {
  await mkdir(path, purpose === "write private" ? 0o700 : 0o777).catch((error: unknown) => {
    if (systemCode(error) !== "EEXIST") throw error;
  });
}

async function openByPath(
  rootPath: string,
  names: readonly string[],
  purpose: TargetPurpose,
): Promise<TargetDirectory> {
  let path = rootPath;
  for (const name of names) {
    path = join(path, name);
    if (purpose !== "remove") await make(path, purpose);
    if ((await realpath(path)) !== path) throw moved(purpose);
  }
  return {
    inside: join(path, "/"),
    async sync() {
      // Windows opens no directories; there the journal of the file system has to do
      if (process.platform === "win32") return;
      const handle = await openHandle(path, flags);
      try {
        await handle.sync();
      } finally {
        await handle.close();
      }
    },
    close: () => Promise.resolve(),
  };
}

function moved(purpose: TargetPurpose): SluiceError {
  const operation = purpose === "remove" ? "remove" : "write";
  return new SluiceError(
    "permission_denied",
    `fs: ${operation}: a link leads to another directory`,
  );
}
