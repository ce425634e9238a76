import { rmdir } from "node:fs/promises";
import type { FsRoot } from "../root/root.ts";
import { openTargetDirectory } from "./target-directory.ts";

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
