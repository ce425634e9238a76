import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";

// Windows has neither
const { O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants>;

/**
 * Opens a regular file by its own name, so that a link that another user left there leads nowhere. `flags` are those of
 * open(2); a new file has mode 0600. Rejects with `corrupt` for a link, a pipe, a device or a folder.
 */
export async function openPlain(path: string, flags: number): Promise<FileHandle> {
  const file = await openHandle(path, flags | O_NOFOLLOW | O_NONBLOCK, 0o600).catch(
    (error: NodeJS.ErrnoException) => {
      throw foreignCodes.has(error.code ?? "") ? noPlainFile(path, error) : error;
    },
  );
  try {
    if (!(await file.stat()).isFile()) throw noPlainFile(path);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** What links (also on FreeBSD), pipes, sockets and folders are refused with. */
const foreignCodes: ReadonlySet<string> = new Set(["ELOOP", "EMLINK", "ENXIO", "EISDIR"]);

function noPlainFile(path: string, cause?: unknown): SluiceError {
  const message = `${path} is not a regular file; name the file itself, not a link to it, or move it away`;
  return new SluiceError("corrupt", message, { cause });
}

/** Makes names in the folder of a file durable, where folders can be synchronised. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await openHandle(dirname(path), "r").catch(() => undefined);
  try {
    await folder?.sync();
  } catch {
    // not every platform can
  } finally {
    await folder?.close();
  }
}
