import { lstat, readdir, realpath, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { toSluiceError } from "../root/fs-error.ts";
import { isStepsName, isTemporary } from "../root/names.ts";

/** Options of {@link removeAbandonedWrites}. */
export interface AbandonedWritesOptions {
  /** The folder of a writable backend. */
  readonly root: string;
  /** Only files whose last write is so long ago. Default: one hour. Objects in steps, which may resume, stay for a week. */
  readonly olderThanMs?: number;
}

/**
 * Removes leftovers of writers that ended with their process, and folders that are empty then. Such files
 * are never seen through a backend and only occupy space. Gives how many there were. For the start of a
 * server.
 */
export async function removeAbandonedWrites({
  root,
  olderThanMs = 3_600_000,
}: AbandonedWritesOptions): Promise<number> {
  try {
    const top = await realpath(root);
    const entries = await readdir(top, { recursive: true, withFileTypes: true });
    let removed = 0;
    for (const entry of entries) {
      const isSteps = isStepsName(entry.name);
      if (!entry.isFile() || !(isSteps || isTemporary(entry.name))) continue;
      const path = join(entry.parentPath, entry.name);
      const stats = await lstat(path).catch(() => undefined);
      if (!stats || Date.now() - stats.mtimeMs < (isSteps ? stepsMs : olderThanMs)) continue;
      await unlink(path);
      removed++;
      await removeEmpty(entry.parentPath, top);
    }
    return removed;
  } catch (error) {
    throw toSluiceError(error, "fs: remove abandoned writes");
  }
}

const stepsMs = 7 * 24 * 3_600_000;

async function removeEmpty(folder: string, top: string): Promise<void> {
  try {
    for (let path = folder; path !== top; path = dirname(path)) await rmdir(path);
  } catch {
    // something else is in it
  }
}
