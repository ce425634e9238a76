import { createHash } from "node:crypto";
import { type BigIntStats, constants, lstatSync } from "node:fs";
import { type FileHandle, lstat, open, rename, rm } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import type { StepOptions, StepWriter } from "@sluice/storage";
import { createStepWriter, type StepDriver } from "@sluice/storage/plugin";
import { toObjectInfo } from "../read/object-info.ts";
import { systemCode, toSluiceError } from "../root/fs-error.ts";
import { stepsName } from "../root/names.ts";
import { beginCall, type FsRoot } from "../root/root.ts";
import { createGatheredWrites } from "./gathered-writes.ts";
import type { WithKeyLock } from "./key-locks.ts";
import {
  againWithFolder,
  openTargetDirectory,
  removeEmptyFolders,
  type TargetDirectory,
} from "./target-directory.ts";

const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;

/**
 * Opens a writer of one step: the bytes go to a file beside the target, each where it belongs, and `commit` gives the
 * file its name. Before each write, and before it gets its name, the file must still have its first name and be as
 * long as this writer made it: another writer that went on with it shows there. Up to 2 MiB wait in memory.
 */
export async function createFsStepWriter(
  root: FsRoot,
  key: string,
  options: StepOptions,
  { racyMs, withKeyLock }: { readonly racyMs: number; readonly withKeyLock: WithKeyLock },
): Promise<StepWriter> {
  const { signal } = options;
  const operation = beginCall(root, "write in steps", key, options);
  const id = options.id ?? crypto.randomUUID();
  if (!/^[0-9a-f-]{36}$/.test(id))
    throw new SluiceError("invalid_argument", `${operation}: the id is not one of this backend`);
  const opened = await openSteps(root, key, id, options).catch((error: unknown) => {
    throw toSluiceError(error, operation);
  });
  const { directory, path, file, inode, isLocal, size: offset } = opened;
  // on a disk of this machine a look never waits, and a way through the thread pool costs more than it
  const look = (at: string): Promise<BigIntStats | undefined> | BigIntStats | undefined =>
    isLocal ? lstatSync(at, quietly) : lookLater(at);

  /** Works on the file while no other writer of this process does. Another process is seen, but not kept out. */
  const whileOurs = <T>(size: number, work: () => Promise<T>): Promise<T> =>
    withKeyLock(key, async () => {
      const stats = await look(path);
      if (stats?.ino !== inode || stats.size !== BigInt(size))
        throw new SluiceError(
          "precondition_failed",
          `${operation}: another writer went on with it`,
        );
      return work();
    });
  const writes = createGatheredWrites(file, { position: offset, around: whileOurs });

  const openDriver = (ended: AbortSignal): StepDriver => ({
    append: (chunk) => writes.append(chunk),
    async keep() {
      const end = await writes.settle();
      await file.datasync();
      return { offset: end, rest: new Uint8Array() };
    },
    async publish() {
      const end = await writes.settle();
      await file.sync();
      await whileOurs(end, async () => {
        ended.throwIfAborted();
        await rename(path, directory.inside + key.slice(key.lastIndexOf("/") + 1));
      });
      await directory.sync();
      return toObjectInfo(key, await file.stat({ bigint: true }), racyMs);
    },
    async discard() {
      await removeSteps(root, key, id);
    },
    async release() {
      await writes.end();
      await file.close();
      await directory.close();
    },
  });
  return createStepWriter(openDriver, { operation, id, offset, signal, toError: toSluiceError });
}

/** The file of an object in steps, inside its open directory. */
interface StepsFile {
  readonly directory: TargetDirectory;
  readonly path: string;
  readonly file: FileHandle;
  readonly inode: bigint;
  readonly size: number;
  /** It lies on a disk of this machine. */
  readonly isLocal: boolean;
}

const quietly = { bigint: true, throwIfNoEntry: false } as const;

async function lookLater(path: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true });
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    return undefined;
  }
}

async function openSteps(
  root: FsRoot,
  key: string,
  id: string,
  { id: given, private: isPrivate }: StepOptions,
): Promise<StepsFile> {
  const isNew = given === undefined;
  const attempt = async (): Promise<StepsFile> => {
    const purpose = isNew ? (isPrivate ? "write private" : "write") : "remove";
    const directory = await openTargetDirectory(root, key, purpose);
    let file: FileHandle | undefined;
    try {
      const path = directory.inside + nameOf(key, id);
      const flags = O_RDWR | O_NOFOLLOW | (isNew ? O_CREAT | O_EXCL : 0);
      file = await open(path, flags, isPrivate ? 0o600 : 0o666);
      // what a process left that stopped is kept from now on, and so is the name of a new file
      await (isNew ? directory.sync() : file.datasync());
      const { ino, dev, size } = await file.stat({ bigint: true });
      const isLocal = dev === root.localDevice;
      return { directory, path, file, inode: ino, size: Number(size), isLocal };
    } catch (error) {
      await file?.close();
      await directory.close();
      throw error;
    }
  };
  return isNew ? againWithFolder(attempt) : attempt();
}

/** A caller has the id, so it is no part of the name: whatever it is, it leads to no other file. */
function nameOf(key: string, id: string): string {
  return stepsName(createHash("sha256").update(`${id} ${key}`).digest("hex"));
}

async function removeSteps(root: FsRoot, key: string, id: string): Promise<void> {
  try {
    const directory = await openTargetDirectory(root, key, "remove");
    try {
      await rm(directory.inside + nameOf(key, id), { force: true });
      await directory.sync();
    } finally {
      await directory.close();
    }
    await removeEmptyFolders(root, key);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
}
