import {
  type BigIntStats,
  close,
  closeSync,
  constants,
  fstatSync,
  lstat,
  open,
  openSync,
  read,
  realpath,
} from "node:fs";
import { promisify } from "node:util";
import { SluiceError } from "@sluice/core";
import { toSluiceError } from "../root/fs-error.ts";
import { isHidden } from "../root/names.ts";
import { type FsRoot, nameOfDescriptor, pathOf, toKey } from "../root/root.ts";
import { isVolumeName, openVolumeLink } from "../root/volume.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
// a flag that the platform lacks is undefined and counts as 0 here; O_NONBLOCK: opening a FIFO
// would otherwise hold a thread of the pool until a writer opens it
const following = O_RDONLY | O_NONBLOCK | O_NOCTTY;
const flags = following | O_NOFOLLOW;

const openAsync = promisify(open);
const closeAsync = promisify(close);
const readAsync = promisify(read);
const lstatAsync = promisify(lstat);
const realpathAsync = promisify(realpath.native);

/** An open regular file that was proven to lie inside the root. */
export interface OpenedFile {
  readonly fd: number;
  /**
   * Where the file really lies: another key than was asked for when links or case led to it. A file
   * of a mounted volume has the key of its link, since its folder has another name after an update.
   */
  readonly key: string;
  /** Where the file really lies, without links on the way. */
  readonly path: string;
  readonly stats: BigIntStats;
}

/**
 * Opens first and then asks the descriptor what it is and where it lies: whatever another process
 * swaps, the response is about the bytes that will be read.
 */
export async function openFile(
  root: FsRoot,
  key: string,
  operation: string,
  signal: AbortSignal | undefined,
): Promise<OpenedFile> {
  const path = pathOf(root, key);
  let fd: number | undefined;
  try {
    const opened = await openAt(root, path);
    ({ fd } = opened);
    // the attributes are fresh from opening, so that this does not wait, even on a network
    const stats = fstatSync(fd, { bigint: true });
    const real = root.namesDescriptors
      ? keyByDescriptor(root, key, path, fd)
      : await keyByIdentity(root, path, stats);
    if (real === undefined)
      throw new SluiceError("permission_denied", `${operation}: outside the root`);
    const isInVolume = isVolumeName(key, real);
    if (opened.isLink && !isInVolume)
      throw new SluiceError("permission_denied", `${operation}: a link to another name`);
    const found = isInVolume ? key : real;
    if (found !== key && isHidden(found, root.dotfiles))
      throw new SluiceError("not_found", `${operation}: hidden`);
    if (!stats.isFile() || (stats.size === 0n && (await hasBytes(fd))))
      throw new SluiceError("unsupported", `${operation}: not a regular file`);
    signal?.throwIfAborted();
    if (stats.dev === root.localDevice && found === real) root.warmPaths.add(path);
    return { fd, key: found, path: pathOf(root, real), stats };
    // #region abort
  } catch (error) {
    if (fd !== undefined) await closeAsync(fd);
    if (signal?.aborted && error === signal.reason) throw error;
    throw toSluiceError(error, operation);
  }
  // #endregion
}

async function openAt(
  { warmPaths }: FsRoot,
  path: string,
): Promise<{ readonly fd: number; readonly isLink: boolean }> {
  try {
    // a way through the thread pool costs more than all the rest of opening a file
    const fd = warmPaths.has(path) ? openSync(path, flags) : await openAsync(path, flags);
    return { fd, isLink: false };
  } catch (error) {
    return { fd: await openVolumeLink(path, following, error), isLink: true };
  }
}

/** Lets go of a descriptor; on a local disk at once, elsewhere in the thread pool. */
export function closeFile(root: FsRoot, { fd, stats }: OpenedFile): Promise<void> {
  if (stats.dev !== root.localDevice) return closeAsync(fd);
  closeSync(fd);
  return Promise.resolve();
}

function keyByDescriptor(root: FsRoot, key: string, path: string, fd: number): string | undefined {
  const name = nameOfDescriptor(fd);
  if (name === path) return key;
  // replaced or removed since it was opened: still the file that had this name
  const isDeleted = name.endsWith(" (deleted)") && !key.endsWith(" (deleted)");
  return toKey(root, isDeleted ? name.slice(0, -" (deleted)".length) : name);
}

/**
 * Without names of descriptors: the file that a path inside the root names must be the one that
 * is open. Between the two looks at the path a process that may write to the root can swap links.
 */
async function keyByIdentity(
  root: FsRoot,
  path: string,
  stats: BigIntStats,
): Promise<string | undefined> {
  const real = await realpathAsync(path);
  const namedStats = await lstatAsync(real, { bigint: true });
  return namedStats.dev === stats.dev && namedStats.ino === stats.ino
    ? toKey(root, real)
    : undefined;
}

/** Files of /proc say size 0 and have content: their size cannot be promised. */
async function hasBytes(fd: number): Promise<boolean> {
  return (await readAsync(fd, Buffer.alloc(1), 0, 1, 0)).bytesRead > 0;
}
