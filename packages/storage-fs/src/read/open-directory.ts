import { close, constants, type Dir, open, opendir, realpath } from "node:fs";
import { promisify } from "node:util";
import { systemCode, toSluiceError } from "../root/fs-error.ts";
import { nameOfDescriptor, type FsRoot, toDirectoryPath, toKey } from "../root/root.ts";
import { isVolumeName, openVolumeLink } from "../root/volume.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
const following = O_RDONLY | O_NONBLOCK | O_DIRECTORY;
const flags = following | O_NOFOLLOW;
// a million names take 1.1 s with 256, 2.5 s with 32; 4096 would hold up the event loop for 20 ms
const bufferSize = 256;

const openAsync = promisify(open);
const closeAsync = promisify(close);
const opendirAsync = promisify(opendir);
const realpathAsync = promisify(realpath.native);

/** A directory inside the root, open for reading its entries. */
export interface OpenDirectory {
  /**
   * Prefix of the path of an entry. On Linux it leads through the descriptor and so to this very
   * directory while it is open, whatever is renamed or linked at the same time.
   */
  readonly inside: string;
  readonly entries: Dir;
  close(): Promise<void>;
}

const unreachable: ReadonlySet<string | undefined> = new Set([
  "ENOENT",
  "ENOTDIR",
  "ELOOP",
  "EACCES",
  "EPERM",
]);

/**
 * Opens the directory at `path`, or gives `undefined` when it is not there, not a directory, not
 * readable, or not the one of `key` ("" or "a/b/"): links are not followed, so that nothing is listed
 * twice, except those of a mounted volume, whose files have no other name.
 */
export async function openDirectory(
  root: FsRoot,
  path: string,
  key: string,
): Promise<OpenDirectory | undefined> {
  let fd: number | undefined;
  let opened: OpenDirectory | undefined;
  try {
    if (root.namesDescriptors) {
      fd = await openAsync(path, flags).catch((error) => openVolumeLink(path, following, error));
      if (isPlaceOf(root, key, nameOfDescriptor(fd))) opened = await readByDescriptor(fd);
    } else if (isPlaceOf(root, key, await realpathAsync(path))) {
      const entries = await opendirAsync(path, { bufferSize });
      opened = { inside: `${path}/`, entries, close: () => entries.close() };
    }
    return opened;
  } catch (error) {
    if (unreachable.has(systemCode(error))) return undefined;
    throw toSluiceError(error, "fs: list");
  } finally {
    if (fd !== undefined && opened === undefined) await closeAsync(fd);
  }
}

/** True if the files of a folder are in the directory at `realPath`. */
function isPlaceOf(root: FsRoot, folder: string, realPath: string): boolean {
  if (realPath === toDirectoryPath(root, folder)) return true;
  const realKey = toKey(root, realPath);
  return realKey !== undefined && isVolumeName(folder.slice(0, -1), realKey);
}

async function readByDescriptor(fd: number): Promise<OpenDirectory> {
  const path = `/proc/self/fd/${fd}`;
  const entries = await opendirAsync(path, { bufferSize });
  return {
    inside: `${path}/`,
    entries,
    async close() {
      await Promise.all([entries.close(), closeAsync(fd)]);
    },
  };
}
