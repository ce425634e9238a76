import { constants } from "node:fs";
import { type FileHandle, link, lstat, open, rename, rm } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import { quoteKey, wrongSize } from "@sluice/storage/plugin";
import { removeEmptyFolders } from "./empty-folders.ts";
import { createFlushBehind } from "./flush-behind.ts";
import { systemCode, toSluiceError } from "../root/fs-error.ts";
import { temporaryName } from "../root/names.ts";
import { toObjectInfo } from "../read/object-info.ts";
import { type Root, toPath } from "../root/root.ts";
import { openTargetDirectory, type TargetDirectory } from "./target-directory.ts";

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
/** Chunks are gathered to this much, or this many, before they are written together. */
const gatherBytes = 256 * 1024;
const gatherChunks = 512;
/** How often a folder may vanish before a file is in it. */
const mostAttempts = 20;

/** Gives each piece of work about one key its turn, one after the other. */
export type TakeTurns = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Writes that compare before they replace must not pass one another within this process. */
export function createTurns(): TakeTurns {
  const latest = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const mine = (latest.get(key) ?? Promise.resolve()).then(work, work);
    latest.set(key, mine);
    try {
      return await mine;
    } finally {
      if (latest.get(key) === mine) latest.delete(key);
    }
  };
}

/**
 * Opens a writer: the bytes go to a temporary file beside the target, which `commit` flushes to
 * disk and gives its name in one step. Up to 512 KiB wait in memory.
 */
export async function createFsWriter(
  root: Root,
  key: string,
  options: WriteOptions,
  { racyMs, takeTurns }: { readonly racyMs: number; readonly takeTurns: TakeTurns },
): Promise<ObjectWriter> {
  const { size, signal } = options;
  const who = `fs: write ${quoteKey(key)}`;
  signal?.throwIfAborted();
  toPath(root, key, "fs: write");

  const ensureCurrent = (target: string): Promise<void> => ensurePrecondition(target, options, who);
  const { directory, target, temporary, file } = await openTemporary(
    root,
    key,
    options,
    ensureCurrent,
  ).catch((error: unknown) => {
    throw toSluiceError(error, who);
  });

  let gathered: Uint8Array[] = [];
  let gatheredBytes = 0;
  let written = 0;
  let committed = false;
  let writing = Promise.resolve();
  let finished: Promise<unknown> | undefined;
  const flush = createFlushBehind(file);

  const startWriting = (): void => {
    const chunks = gathered;
    const bytes = gatheredBytes;
    gathered = [];
    gatheredBytes = 0;
    writing = writing.then(() => writeAll(file, chunks)).then(() => flush.wrote(bytes));
    // it is thrown where the writer is waited for next
    writing.catch(() => {});
  };
  const ensureOpen = (operation: string): void => {
    signal?.throwIfAborted();
    if (finished) throw new TypeError(`${who}: ${operation} after the writer was finished`);
  };
  const release = async (): Promise<void> => {
    signal?.removeEventListener("abort", onAbort);
    await writing.catch(() => {});
    await flush.settle().catch(() => {});
    await file.close();
    await rm(temporary, { force: true });
    await directory.close();
    if (!committed) await removeEmptyFolders(root, key);
  };
  // #region commit
  const publish = async (): Promise<void> => {
    await ensureCurrent(target);
    signal?.throwIfAborted();
    if (options.ifAbsent) await linkNew(temporary, target, who);
    else await rename(temporary, target);
    committed = true;
  };
  const finish = async (): Promise<ObjectInfo> => {
    try {
      startWriting();
      await writing;
      if (size !== undefined && size !== written) throw wrongSize(who, written, size);
      await flush.settle();
      await file.sync();
      await takeTurns(key, publish);
      await rm(temporary, { force: true });
      await directory.sync();
      return toObjectInfo(key, await file.stat({ bigint: true }), racyMs);
    } catch (error) {
      signal?.throwIfAborted();
      throw toSluiceError(error, who);
    } finally {
      await release();
    }
  };
  // #endregion
  // #region abort
  const abort = async (): Promise<void> => {
    finished ??= release();
    await finished.catch(() => {});
  };
  const onAbort = (): void => void abort();
  signal?.addEventListener("abort", onAbort, { once: true });
  // #endregion

  return {
    async write(chunk) {
      ensureOpen("write");
      written += chunk.byteLength;
      if (size !== undefined && written > size) {
        await abort();
        throw wrongSize(who, written, size);
      }
      gathered.push(chunk);
      gatheredBytes += chunk.byteLength;
      if (gatheredBytes < gatherBytes && gathered.length < gatherChunks) return;
      try {
        await writing;
      } catch (error) {
        await abort();
        throw toSluiceError(error, who);
      }
      if (!finished) startWriting();
    },
    async commit() {
      ensureOpen("commit");
      const finishing = finish();
      finished = finishing;
      return finishing;
    },
    abort,
    [Symbol.asyncDispose]: abort,
  };
}

/** A temporary file beside its target, both inside an open directory. */
interface Temporary {
  readonly directory: TargetDirectory;
  readonly target: string;
  readonly temporary: string;
  readonly file: FileHandle;
}

/** Once the file is there its folder stays; before, a removal nearby may take the empty folder away. */
async function openTemporary(
  root: Root,
  key: string,
  options: WriteOptions,
  ensureCurrent: (target: string) => Promise<void>,
): Promise<Temporary> {
  for (let attempt = 1; ; attempt++)
    try {
      return await tryTemporary(root, key, options, ensureCurrent);
    } catch (error) {
      if (systemCode(error) !== "ENOENT" || attempt === mostAttempts) throw error;
    }
}

async function tryTemporary(
  root: Root,
  key: string,
  { private: isPrivate, ifAbsent }: WriteOptions,
  ensureCurrent: (target: string) => Promise<void>,
): Promise<Temporary> {
  const purpose = isPrivate ? "write private" : "write";
  const directory = await openTargetDirectory(root, key, purpose);
  try {
    const target = directory.inside + key.slice(key.lastIndexOf("/") + 1);
    const temporary = directory.inside + temporaryName();
    // also now, so that nobody sends gigabytes for nothing
    await ensureCurrent(target);
    const kept = isPrivate || ifAbsent ? undefined : await permissionsOf(target);
    const mode = isPrivate ? 0o600 : (kept ?? 0o666);
    const file = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    // the umask is for new files; a file system that refuses this knows no permissions
    if (kept !== undefined) await file.chmod(kept).catch(() => {});
    return { directory, target, temporary, file };
  } catch (error) {
    await directory.close();
    throw error;
  }
}

/** Writes all of the chunks; the system may take fewer bytes at a time than it was given. */
async function writeAll(file: FileHandle, chunks: readonly Uint8Array[]): Promise<void> {
  let rest = chunks.filter(({ byteLength }) => byteLength > 0);
  while (rest.length > 0) {
    let { bytesWritten } = await file.writev(rest);
    const next: Uint8Array[] = [];
    for (const chunk of rest) {
      const taken = Math.min(bytesWritten, chunk.byteLength);
      bytesWritten -= taken;
      if (taken < chunk.byteLength) next.push(chunk.subarray(taken));
    }
    rest = next;
  }
}

async function ensurePrecondition(
  target: string,
  { ifMatch, ifAbsent }: WriteOptions,
  who: string,
): Promise<void> {
  if (!ifAbsent && ifMatch === undefined) return;
  const stats = await lstat(target, { bigint: true }).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  if (ifAbsent && stats) throw new SluiceError("precondition_failed", `${who}: it exists already`);
  // compared at once and not handed on, so it may be young
  if (ifMatch !== undefined && (!stats?.isFile() || toObjectInfo("", stats, 0).etag !== ifMatch))
    throw new SluiceError("precondition_failed", `${who}: the file has changed`);
}

/** Permissions of a file that is there. What replaces it gets the same, as if it had been written over. */
async function permissionsOf(target: string): Promise<number | undefined> {
  const stats = await lstat(target).catch(() => undefined);
  return stats?.isFile() ? stats.mode & 0o777 : undefined;
}

async function linkNew(temporary: string, target: string, who: string): Promise<void> {
  try {
    await link(temporary, target);
  } catch (error) {
    if (systemCode(error) === "EEXIST")
      throw new SluiceError("precondition_failed", `${who}: it exists already`, { cause: error });
    if (["EPERM", "ENOTSUP", "ENOSYS"].includes(systemCode(error) ?? ""))
      throw new SluiceError("unsupported", `${who}: ifAbsent needs hard links here`, {
        cause: error,
      });
    throw error;
  }
}
