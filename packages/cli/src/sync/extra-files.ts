import { opendir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { diskError } from "@sluice/client/internal";
import type { NameFilter } from "../download/name-filter.ts";

/** The files below a folder that a sync may delete. */
export interface ExtraFiles {
  readonly root: string;
  /** True for a path below it, with `/`, of a file that is to go. */
  readonly isExtra: NameFilter;
  readonly signal: AbortSignal;
}

/**
 * The paths of such files. Only files that a sync could have written count: not hidden ones, and neither links nor what they lead
 * to.
 */
export async function* extraFiles(
  { root, isExtra, signal }: ExtraFiles,
  below = "",
): AsyncGenerator<string> {
  const folder = join(root, below);
  signal.throwIfAborted();
  const entries = await opendir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw diskError(`look through ${JSON.stringify(folder)}`, error);
  });
  for await (const entry of entries) {
    if (entry.name.startsWith(".")) continue;
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) yield* extraFiles({ root, isExtra, signal }, path);
    else if (entry.isFile() && isExtra(path)) yield path;
  }
}

/** Deletes a file below a folder, and the folders that are empty then, but not the folder itself. */
export async function deleteFile(root: string, path: string): Promise<void> {
  const parts = path.split("/");
  try {
    await unlink(join(root, ...parts));
  } catch (error) {
    throw diskError(`delete ${JSON.stringify(join(root, path))}`, error);
  }
  try {
    for (let depth = parts.length - 1; depth > 0; depth -= 1)
      await rmdir(join(root, ...parts.slice(0, depth)));
  } catch {
    // something else is in it
  }
}
