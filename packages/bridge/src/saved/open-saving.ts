import { openSharedSpool, type SpoolFolder } from "../spool/files/spool-folder.ts";
import { createMemoryRecords } from "./memory-records.ts";
import { openSaveRecords } from "./save-records.ts";
import { createSavedFiles, type SavedFiles } from "./saved-files.ts";

/** How much a folder may hold, and for how long. */
export interface SavingBounds {
  readonly spool?: boolean | undefined;
  readonly maxTotalBytes?: number | undefined;
  readonly stateFolder?: string | undefined;
  readonly maxSavedAgeMs?: number | undefined;
}

/** What bridges wrote to a folder: saved files, and large results. */
export interface Saving {
  readonly saved: SavedFiles;
  readonly spoolFolder: SpoolFolder | undefined;
}

/** Opens both for the folder `root`: they share one bound of bytes. Cleans what is too old. */
export async function openSaving(
  root: string,
  maxAgeMs: number,
  { spool = true, maxTotalBytes = 100 * 2 ** 30, stateFolder, maxSavedAgeMs }: SavingBounds,
): Promise<Saving> {
  // a user without a place for state has the bounds of each process
  const stored = stateFolder && (await openSaveRecords(stateFolder, root).catch(() => undefined));
  const records = stored || createMemoryRecords();
  let spoolFolder: SpoolFolder | undefined;
  const saved = createSavedFiles({
    root,
    records,
    maxBytes: maxTotalBytes,
    maxAgeMs: maxSavedAgeMs,
    otherBytes: async () => (await spoolFolder?.bytes()) ?? 0,
  });
  await saved.clean();
  if (spool) spoolFolder = await openSharedSpool(root, maxAgeMs, saved.room);
  return { saved, spoolFolder };
}
