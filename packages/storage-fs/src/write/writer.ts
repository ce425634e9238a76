import { constants } from "node:fs";
import { type FileHandle, link, lstat, rename, rm } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
import type { ObjectWriter, WriteOptions } from "@sluice/storage";
import { createWriter, ensureWritable, type WriteDriver } from "@sluice/storage/plugin";
import type { WithKeyLock } from "./key-locks.ts";
import { createGatheredWrites } from "./gathered-writes.ts";
import { systemCode, toSluiceError } from "../root/fs-error.ts";
import { temporaryName } from "../root/names.ts";
import { toObjectInfo } from "../read/opened-object.ts";
import { beginCall, type FsRoot } from "../root/root.ts";
import {
  againWithFolder,
  openTargetDirectory,
  removeEmptyFolders,
  type TargetDirectory,
} from "./target-directory.ts";

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;

/**
 * Opens a writer: the bytes go to a temporary file beside the target, which `commit` flushes to
 * disk and gives its name in one step. Up to 2 MiB wait in memory.
 */
export async function createFsWriter(
  root: FsRoot,
  key: string,
  options: WriteOptions,
  { racyMs, withKeyLock }: { readonly racyMs: number; readonly withKeyLock: WithKeyLock },
): Promise<ObjectWriter> {
  const { size, signal } = options;
  const operation = beginCall(root, "write", key, options);

  const ensureCurrent = (target: string): Promise<void> =>
    ensureWritable(options, operation, () => versionOf(target, operation));
  const opened = await openTemporary(root, key, options, ensureCurrent).catch((error: unknown) => {
    throw toSluiceError(error, operation);
  });
  const { directory, target, temporary, file } = opened;

  let isPublished = false;
  /** The file still has its temporary name. */
  let isTemporary = true;
  const removeTemporary = async (): Promise<void> => {
    if (isTemporary) await rm(temporary, { force: true });
    isTemporary = false;
  };
  const writes = createGatheredWrites(file);

  const openDriver = (ended: AbortSignal): WriteDriver => ({
    append: (chunk) => writes.append(chunk),
    // #region commit
    async publish() {
      await writes.settle();
      await file.sync();
      await withKeyLock(key, async () => {
        await ensureCurrent(target);
        ended.throwIfAborted();
        if (options.ifAbsent) await linkNew(temporary, target, operation);
        else await rename(temporary, target);
        isTemporary = options.ifAbsent === true;
        isPublished = true;
      });
      await removeTemporary();
      await directory.sync();
      return toObjectInfo(key, await file.stat({ bigint: true }), racyMs);
    },
    // #endregion
    // #region abort
    async release() {
      await writes.end();
      try {
        await file.close();
        await removeTemporary();
      } finally {
        await directory.close();
      }
      if (!isPublished) await removeEmptyFolders(root, key);
    },
    // #endregion
  });
  return createWriter(openDriver, { operation, size, signal, toError: toSluiceError });
}

/** A temporary file beside its target, both inside an open directory. */
interface Temporary {
  readonly directory: TargetDirectory;
  readonly target: string;
  readonly temporary: string;
  readonly file: FileHandle;
}

async function openTemporary(
  root: FsRoot,
  key: string,
  options: WriteOptions,
  ensureCurrent: (target: string) => Promise<void>,
): Promise<Temporary> {
  return againWithFolder(() => tryTemporary(root, key, options, ensureCurrent));
}

async function tryTemporary(
  root: FsRoot,
  key: string,
  { private: isPrivate, ifAbsent }: WriteOptions,
  ensureCurrent: (target: string) => Promise<void>,
): Promise<Temporary> {
  const purpose = isPrivate ? "write private" : "write";
  const directory = await openTargetDirectory(root, key, purpose);
  try {
    const target = directory.inside + key.slice(key.lastIndexOf("/") + 1);
    const temporary = directory.inside + temporaryName();
    await ensureCurrent(target);
    const permissions = isPrivate || ifAbsent ? undefined : await permissionsOf(target);
    const mode = isPrivate ? 0o600 : (permissions ?? 0o666);
    const file = await openHandle(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    // the umask is for new files; a file system that refuses this has no permissions
    if (permissions !== undefined) await file.chmod(permissions).catch(() => {});
    return { directory, target, temporary, file };
  } catch (error) {
    await directory.close();
    throw error;
  }
}

/** The version at a path, as far as a condition asks for it. */
async function versionOf(
  target: string,
  operation: string,
): Promise<{ readonly etag: string | undefined }> {
  const stats = await lstat(target, { bigint: true }).catch((error: unknown) => {
    throw toSluiceError(error, operation);
  });
  // the etag is compared at once and not handed on, so the file may be young
  return { etag: stats.isFile() ? toObjectInfo("", stats, 0).etag : undefined };
}

/** Permissions of a file that is there. Its replacement gets the same, as if it had been overwritten. */
async function permissionsOf(target: string): Promise<number | undefined> {
  const stats = await lstat(target).catch(() => undefined);
  return stats?.isFile() ? stats.mode & 0o777 : undefined;
}

async function linkNew(temporary: string, target: string, operation: string): Promise<void> {
  try {
    await link(temporary, target);
  } catch (error) {
    if (systemCode(error) === "EEXIST")
      throw new SluiceError("precondition_failed", `${operation}: it exists already`, {
        cause: error,
      });
    if (["EPERM", "ENOTSUP", "ENOSYS"].includes(systemCode(error) ?? ""))
      throw new SluiceError("unsupported", `${operation}: ifAbsent needs hard links here`, {
        cause: error,
      });
    throw error;
  }
}
