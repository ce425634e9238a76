import { fdatasync, fsync, futimes, type Mode, type PathLike, readv, writev } from "node:fs";
// oxlint-disable-next-line no-restricted-imports -- the one place that completes handles
import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";

/**
 * Opens a file as `open` of `node:fs/promises` does, and with the same errors. If another implementation replaced that,
 * as Yarn's Plug'n'Play does, the handle can still be synced.
 */
export async function openHandle(
  path: PathLike,
  flags?: string | number,
  mode?: Mode,
): Promise<FileHandle> {
  return completeHandle(await open(path, flags, mode));
}

/**
 * A handle of Node itself, or one of another implementation with the methods that those lack or get wrong. These work on
 * the descriptor: the caller waits for them before it closes the handle.
 */
export function completeHandle(handle: FileHandle): FileHandle {
  // Node, Bun and Deno have an emitter here
  if ("on" in handle) return handle;
  return Object.assign(handle, {
    sync: () => promisify(fsync)(handle.fd),
    datasync: () => promisify(fdatasync)(handle.fd),
    utimes: (...times: Parameters<FileHandle["utimes"]>) => promisify(futimes)(handle.fd, ...times),
    readv: (...given: Parameters<FileHandle["readv"]>) => promisify(readv)(handle.fd, ...given),
    // Plug'n'Play writes the next buffer even after a short write
    writev: (...given: Parameters<FileHandle["writev"]>) => promisify(writev)(handle.fd, ...given),
  });
}
