import { constants } from "node:fs";
import { copyFile, link, open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { diskError } from "./disk-error.ts";
import { randomPartName } from "./part-name.ts";
import { sweepOrphans } from "./resume-record.ts";
import type { SaveBytesOptions } from "./save-bytes.ts";
import { permissionsOf, publishFile, resolveTarget, type SaveTarget } from "./save-target.ts";

/**
 * Saves a file of this user that another part of a program wrote, as `saveBytes` saves bytes: `from` gets a second name, or
 * is copied where it lies on another file system. `from` itself stays. Gives the path. Rejects as `saveBytes` does.
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
    const handle = await open(part, constants.O_RDWR | constants.O_NOFOLLOW);
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
