import { type BigIntStats, lstatSync } from "node:fs";
import { lstat, rename } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import type { StepOptions, StepWriter } from "@sluice/storage";
import { createStepWriter, type StepDriver } from "@sluice/storage/plugin";
import { toObjectInfo } from "../read/opened-object.ts";
import { systemCode, toSluiceError } from "../root/fs-error.ts";
import { beginCall, type FsRoot } from "../root/root.ts";
import { createGatheredWrites, type GatheredWrites } from "./gathered-writes.ts";
import type { WithKeyLock } from "./key-locks.ts";
import { openSteps, removeSteps, type OwnSteps } from "./steps-file.ts";

/**
 * Opens a writer of one step: the bytes go to a file beside the target, each where it belongs, and `commit` gives the
 * file its name. With its first byte the writer takes the file from all others: before each write, and before it gets
 * its name, the file must still have the name of this writer and be as long as it made it. Up to 2 MiB wait in memory.
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
  const steps = await openSteps(root, key, id, options).catch((error: unknown) => {
    throw toSluiceError(error, operation);
  });
  const { directory, size: offset } = steps;
  const overtaken = (): SluiceError =>
    new SluiceError("precondition_failed", `${operation}: another writer resumed it`);

  let ownSteps: OwnSteps | undefined;
  let writes: GatheredWrites | undefined;
  let isPublished = false;

  /** Works on the file while no other writer of this process does, unless another writer has it by now. */
  const whileOurs = <T>(mine: OwnSteps, size: number, work: () => Promise<T>): Promise<T> =>
    withKeyLock(key, async () => {
      const stats = await look(mine);
      if (stats?.ino !== mine.inode || stats.size !== BigInt(size)) throw overtaken();
      return work();
    });
  const claim = async (ended: AbortSignal): Promise<GatheredWrites> => {
    const claimed = await withKeyLock(key, () => steps.claim(ended, overtaken));
    ownSteps = claimed;
    writes = createGatheredWrites(claimed.file, {
      position: offset,
      around: (position, write) => whileOurs(claimed, position, write),
    });
    return writes;
  };

  const openDriver = (ended: AbortSignal): StepDriver => ({
    append: async (chunk) => (writes ?? (await claim(ended))).append(chunk),
    async keep() {
      const end = (await writes?.settle()) ?? offset;
      await ownSteps?.file.datasync();
      return { offset: end, rest: new Uint8Array() };
    },
    async publish() {
      const end = await (writes ?? (await claim(ended))).settle();
      const claimed = ownSteps!;
      await claimed.file.sync();
      await whileOurs(claimed, end, async () => {
        ended.throwIfAborted();
        await rename(claimed.path, directory.inside + key.slice(key.lastIndexOf("/") + 1)).catch(
          (error: unknown) => {
            throw systemCode(error) === "ENOENT" ? overtaken() : error;
          },
        );
        isPublished = true;
      });
      await directory.sync();
      return toObjectInfo(key, await claimed.file.stat({ bigint: true }), racyMs);
    },
    async discard() {
      await removeSteps(root, key, id);
    },
    async release() {
      await writes?.end();
      await steps.close(isPublished ? undefined : ownSteps);
    },
  });
  return createStepWriter(openDriver, { operation, id, offset, signal, toError: toSluiceError });
}

/** On a disk of this machine a look never waits, and a way through the thread pool costs more than it. */
function look({
  path,
  isLocal,
}: OwnSteps): Promise<BigIntStats | undefined> | BigIntStats | undefined {
  return isLocal ? lstatSync(path, quietly) : lookLater(path);
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
