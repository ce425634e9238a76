import { close, constants, type Dir, open, opendir, realpath } from "node:fs";
import { promisify } from "node:util";
import { systemCode, toSluiceError } from "../root/fs-error.ts";
import { nameOfDescriptor, type FsRoot } from "../root/root.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
const flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_DIRECTORY;
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
 * readable, or does not lie at `realPath`: links are not followed, so that nothing is listed twice.
 */
export async function openDirectory(
  root: FsRoot,
  path: string,
  realPath: string,
): Promise<OpenDirectory | undefined> {
  let fd: number | undefined;
  let opened: OpenDirectory | undefined;
  try {
    if (root.namesDescriptors) {
      fd = await openAsync(path, flags);
      if (nameOfDescriptor(fd) === realPath) opened = await readByDescriptor(fd);
    } else if ((await realpathAsync(path)) === realPath) {
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
