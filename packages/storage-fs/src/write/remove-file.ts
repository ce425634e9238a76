import { lstat, unlink } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import { unlessMissing } from "@sluice/storage/plugin";
import { toSluiceError } from "../root/fs-error.ts";
import { beginCall, type FsRoot } from "../root/root.ts";
import { openTargetDirectory, removeEmptyFolders } from "./target-directory.ts";
import type { WithKeyLock } from "./key-locks.ts";

/**
 * Removes the file of a key inside its opened directory, and folders that are empty then. A link at
 * the end is removed itself, and links on the way are refused. A missing or hidden file is removed
 * already. It resolves once the directory is flushed to disk.
 */
export async function removeFile(
  root: FsRoot,
  key: string,
  withKeyLock: WithKeyLock,
  signal: AbortSignal | undefined,
): Promise<void> {
  const removal = async (): Promise<void> => {
    const operation = beginCall(root, "remove", key, { signal });
    try {
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
  const directory = await openTargetDirectory(root, key, "remove");
  try {
    const target = directory.inside + key.slice(key.lastIndexOf("/") + 1);
    const stats = await lstat(target);
    // unlink never removes a directory that another process puts there
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
