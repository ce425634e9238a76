import { constants } from "node:fs";
import { copyFile, link, unlink } from "node:fs/promises";
import { join } from "node:path";
import { openHandle } from "@sluice/core/internal/node";
import { diskError } from "./disk-error.ts";
import { randomPartName } from "./part-name.ts";
import { sweepOrphans } from "./resume-record.ts";
import {
  permissionsOf,
  publishFile,
  resolveTarget,
  type SaveTarget,
  ensureSpace,
} from "./save-target.ts";
import type { SavedFile } from "../download/save-options.ts";
import { createPartFile } from "./part-file.ts";

/**
 * Saves a file of this user that another part of a program wrote, as `saveBytes` saves bytes: `from` gets a second
 * name, or is copied if it lies on another file system. `from` itself stays. Returns the path. Rejects as `saveBytes`
 * does.
 */
export async function saveFile(
  from: string,
  path: string,
  { name, overwrite = false }: SaveBytesOptions,
): Promise<string> {
  const target = await resolveTarget(path, name, overwrite);
  await sweepOrphans(target.directory, Date.now());
  const permissions = await permissionsOf(target);
  const part = join(target.directory, randomPartName());
  try {
    await besideTarget(from, part, target);
    const handle = await openHandle(part, constants.O_RDWR | constants.O_NOFOLLOW);
    try {
      await handle.chmod(permissions);
      await handle.sync();
    } finally {
      await handle.close();
    }
    return await publishFile(part, target);
  } catch (error) {
    throw diskError(`save to ${JSON.stringify(path)}`, error);
  } finally {
    await unlink(part).catch(() => {});
  }
}

async function besideTarget(from: string, part: string, { directory }: SaveTarget): Promise<void> {
  try {
    await link(from, part);
  } catch {
    // another file system, or one without hard links
    await copyFile(from, part, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE).catch(
      (error: unknown) => {
        throw diskError(`save to ${JSON.stringify(directory)}`, error);
      },
    );
  }
}

/** Options of {@link saveBytes}. */
export interface SaveBytesOptions {
  /** Name for the file in a folder. It is made safe. */
  readonly name: string;
  /** Replace an existing file. Default: false. */
  readonly overwrite?: boolean;
}

/**
 * Saves bytes that are in memory, as `saveTo` of a stream saves what it receives: the file appears whole or not at all,
 * and replaces nothing unless `overwrite` says so. `path` is the file, or a folder if it is one or ends with a
 * separator. Rejects with `already_exists`, `no_space`, `permission_denied` and `invalid_argument`.
 */
export async function saveBytes(
  bytes: Uint8Array,
  path: string,
  { name, overwrite = false }: SaveBytesOptions,
): Promise<Pick<SavedFile, "path" | "size" | "sha256">> {
  const target = await resolveTarget(path, name, overwrite);
  await sweepOrphans(target.directory, Date.now());
  await ensureSpace(target.directory, bytes.length);
  const permissions = await permissionsOf(target);
  const part = await createPartFile(target.directory);
  try {
    const buffer = part.writeBuffer(bytes.length);
    if (bytes.length > 0) await buffer.write(bytes, 0);
    await buffer.flush();
    const { size, sha256 } = await part.finish();
    await part.allow(permissions);
    return { path: await publishFile(part.path, target), size, sha256 };
  } catch (error) {
    await part.discard();
    throw error;
  } finally {
    await part.close();
  }
}
