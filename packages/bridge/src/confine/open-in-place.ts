import { constants } from "node:fs";
import { lstat, open, readlink, realpath, type FileHandle } from "node:fs/promises";
import { SluiceError } from "@sluice/core";

/** What a file is, whatever its name: device and inode. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/**
 * Opens what lies at `path` for reading, where no part of `path` is a link. It is checked after the open, so a folder
 * that becomes a link in between leads nowhere. Rejects with `untrusted`, or with the fault of the file system.
 */
export async function openInPlace(path: string): Promise<FileHandle> {
  // a pipe must not make the open wait
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "ELOOP" || error.code === "EMLINK" ? linkedFault() : error;
  });
  try {
    await ensureInPlace(handle, path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Throws `untrusted` unless `handle` is what lies at `path`, without a link on the way. */
export async function ensureInPlace(handle: FileHandle, path: string): Promise<void> {
  // Linux says where an open file lies
  const place =
    process.platform === "linux"
      ? await readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined)
      : undefined;
  if ((place ?? (await realpath(path))) !== path) throw linkedFault();
  const [opened, named] = await Promise.all([
    handle.stat({ bigint: true }),
    lstat(path, { bigint: true }),
  ]);
  if (opened.dev !== named.dev || opened.ino !== named.ino) throw linkedFault();
}

/** A path that leads through a link. */
export function linkedFault(): SluiceError {
  return new SluiceError(
    "untrusted",
    "bridge: a part of that path is a link; pass the file itself",
  );
}
