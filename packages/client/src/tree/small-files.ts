import { constants } from "node:fs";
import { unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { openHandle } from "@sluice/core/internal/node";
import { diskError } from "../save/disk-error.ts";
import { randomPartName } from "../save/part-name.ts";
import { sweepOrphans } from "../save/resume-record.ts";
import { isFileTime } from "../save/save-opened.ts";
import { permissionsOf, publishFile, type SaveTarget } from "../save/save-target.ts";

/** A file that arrived whole and was verified. */
export interface WholeFile {
  readonly chunks: readonly Uint8Array[];
  /** Bytes of all chunks. */
  readonly size: number;
  /** Unix milliseconds. */
  readonly modifiedMs?: number | undefined;
}

/** Saves small files: each appears whole, durable and under its name, or not at all. Nothing of one is kept for another run. */
export class SmallFileDisk {
  readonly #overwrite: boolean;

  constructor({ overwrite }: { readonly overwrite: boolean }) {
    this.#overwrite = overwrite;
  }

  /** Saves a file at an absolute path, in a folder that is there. Rejects with `already_exists`, `no_space`, `permission_denied`. */
  async save(path: string, file: WholeFile): Promise<void> {
    const target: SaveTarget = {
      directory: dirname(path),
      name: basename(path),
      mayRename: false,
      overwrite: this.#overwrite,
    };
    await sweepOrphans(target.directory, Date.now());
    // a file that is replaced gives its own
    const permissions = this.#overwrite ? await permissionsOf(target) : undefined;
    const part = join(target.directory, randomPartName());
    try {
      await writePart(part, file, permissions);
      await publishFile(part, target);
    } catch (error) {
      await unlink(part).catch(() => {});
      throw diskError(`save ${JSON.stringify(path)}`, error);
    }
  }
}

const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;

/** What the umask or the folder's default ACL takes from. */
const newFileMode = 0o666;

/** Writes a file under a name of its own, private until it is complete if it has permissions to come. */
async function writePart(
  part: string,
  { chunks, modifiedMs }: WholeFile,
  permissions: number | undefined,
): Promise<void> {
  const flags = O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW;
  const handle = await openHandle(part, flags, permissions === undefined ? newFileMode : 0o600);
  try {
    for (const chunk of chunks) await handle.writeFile(chunk);
    // where the file system has any
    if (permissions !== undefined) await handle.chmod(permissions).catch(() => {});
    if (isFileTime(modifiedMs))
      await handle.utimes(new Date(), new Date(modifiedMs)).catch(() => {});
    await handle.sync();
  } finally {
    await handle.close();
  }
}
