import { realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { descriptorsHaveNames } from "../root/root.ts";
import { openDirectoryBelow } from "./target-directory.ts";

/** A folder that stays the same one while it is held, whatever another process puts in its place. */
export interface HeldFolder {
  /**
   * Prefix of the path of a file in it. On Linux it names the open folder (`/proc/self/fd`) and
   * stays with it; elsewhere it is the path, and only {@link isInPlace} tells of a change.
   */
  readonly inside: string;
  /** False when the path leads to another folder by now. */
  isInPlace(): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * Opens a folder below `root`, which is a real path, and makes it if `make` says so. No link is
 * followed on the way. Rejects with `permission_denied` for a link, or with the error of the
 * system.
 */
export async function holdFolder(
  root: string,
  names: readonly string[],
  { make }: { readonly make: boolean },
): Promise<HeldFolder> {
  const namesDescriptors = descriptorsHaveNames(root);
  const directory = await openDirectoryBelow(
    { path: root, namesDescriptors },
    names,
    make ? "write" : "remove",
  );
  const path = join(root, ...names);
  const identity = await identityOf(directory.inside);
  return {
    inside: directory.inside,
    close: () => directory.close(),
    async isInPlace() {
      const real = await realpath(path).catch(() => undefined);
      return real === path && (await identityOf(path).catch(() => undefined)) === identity;
    },
  };
}

async function identityOf(path: string): Promise<string> {
  const { dev, ino } = await stat(path, { bigint: true });
  return `${dev}:${ino}`;
}
