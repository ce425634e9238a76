import type { SavedFile } from "./save-resource.ts";
import { createPartFile } from "./part-file.ts";
import { sweepOrphans } from "./resume-record.ts";
import { ensureSpace, permissionsOf, publishFile, resolveTarget } from "./save-target.ts";

/** Options of {@link saveBytes}. */
export interface SaveBytesOptions {
  /** Name for the file in a folder. It is made safe. */
  readonly name: string;
  /** Replace a file that is there. Default: false. */
  readonly overwrite?: boolean;
}

/**
 * Saves bytes that are in memory, as `saveTo` of a stream saves what it receives: the file appears whole or not at all, and
 * replaces nothing unless `overwrite` says so. `path` is the file, or a folder where it is one or ends with a separator.
 * Rejects with `already_exists`, `no_space`, `permission_denied` and `invalid_argument`.
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
