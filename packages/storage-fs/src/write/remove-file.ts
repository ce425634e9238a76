import { lstat, unlink } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import { quoteKey, unlessMissing } from "@sluice/storage/plugin";
import { removeEmptyFolders } from "./empty-folders.ts";
import { toSluiceError } from "../root/fs-error.ts";
import { type FsRoot, toPath } from "../root/root.ts";
import { openTargetDirectory } from "./target-directory.ts";
import type { WithKeyLock } from "./key-locks.ts";

/** What {@link removeFile} heeds. */
export interface RemoveOptions {
  readonly withKeyLock: WithKeyLock;
  readonly signal: AbortSignal | undefined;
}

/**
 * Removes the file of a key inside its opened directory, and folders that are empty then. A link
 * at the end is removed itself, and links on the way are refused. What is not there, or hidden, is
 * removed already. It resolves once the directory is flushed to disk.
 */
export async function removeFile(
  root: FsRoot,
  key: string,
  { withKeyLock, signal }: RemoveOptions,
): Promise<void> {
  const operation = `fs: remove ${quoteKey(key)}`;
  const removal = async (): Promise<void> => {
    try {
      signal?.throwIfAborted();
      await removeInside(root, key, operation);
    } catch (error) {
      signal?.throwIfAborted();
      throw toSluiceError(error, operation);
    }
  };
  signal?.throwIfAborted();
  await unlessMissing(withKeyLock(key, removal));
}

// #region inside
async function removeInside(root: FsRoot, key: string, operation: string): Promise<void> {
  toPath(root, key, "fs: remove");
  const directory = await openTargetDirectory(root, key, "remove");
  try {
    const target = directory.inside + key.slice(key.lastIndexOf("/") + 1);
    const stats = await lstat(target);
    // unlink never removes a directory that another process puts there meanwhile
    if (!stats.isFile() && !stats.isSymbolicLink())
      throw new SluiceError("unsupported", `${operation}: not a regular file`);
    await unlink(target);
    await directory.sync();
  } finally {
    await directory.close();
  }
  await removeEmptyFolders(root, key);
}
// #endregion
