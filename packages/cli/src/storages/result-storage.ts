import type { StorageBackend } from "@sluice/storage";
import { prepareFolder } from "./prepare-folder.ts";
import { lookAtStorage } from "./look-at-storage.ts";
import { openStorage } from "./open-storage.ts";
import { refuseStorage } from "./refuse-storage.ts";
import { parseStorageUrl, type StorageUrl } from "./storage-url.ts";

/**
 * Opens the storage of `--results-to` for writing, and looks at it. A folder that is not there is made, for this user
 * alone. Throws faults that say what is wrong.
 */
export async function openResultStorage(
  source: string,
  signal: AbortSignal,
): Promise<StorageBackend> {
  const place = placeOf(source);
  if (place.kind === "file") await prepareFolder(place.root, 0o700, "--results-to");
  const backend = await openStorage(source, process.env, { writable: true }).catch(refuseStorage);
  try {
    await lookAtStorage({ source, backend, signal });
    return backend;
  } catch (error) {
    await backend.close?.();
    throw error;
  }
}

function placeOf(source: string): StorageUrl {
  try {
    return parseStorageUrl(source);
  } catch (error) {
    return refuseStorage(error);
  }
}
