import { definedMembers } from "@sluice/core/internal";
import { protect, type StorageBackend } from "@sluice/storage";
import { lookAtStorage, refuseStorage, tellListFaults } from "../storages/look-at-storage.ts";
import { openStorage } from "../storages/open-storage.ts";
import { parseStorageUrl } from "../storages/storage-url.ts";
import { note } from "../terminal/print.ts";
import type { MountChoice } from "./serve-options.ts";

/** A mount whose storage is open. */
export interface OpenMount extends MountChoice {
  readonly storage: StorageBackend;
}

interface OpeningTerms {
  /** Endings of append-only files in folders. */
  readonly appendOnly: readonly string[];
  readonly signal: AbortSignal;
}

/** Opens the storages of mounts, and looks at those that are not folders. If one of them fails, none stays open. */
export async function openMounts(
  choices: readonly MountChoice[],
  { appendOnly, signal }: OpeningTerms,
): Promise<OpenMount[]> {
  const mounts: OpenMount[] = [];
  try {
    for (const { uri, source, delivery } of choices) {
      const backend = await openStorage(source, process.env, { appendOnly }).catch(refuseStorage);
      const storage = protect(tellListFaults(backend, note));
      mounts.push({ uri, source, storage, ...definedMembers({ delivery }) });
      if (folderOf(source) === undefined) await lookAtStorage({ source, backend, signal });
    }
    return mounts;
  } catch (error) {
    await closeMounts(mounts);
    throw error;
  }
}

/** Closes their storages. */
export async function closeMounts(mounts: readonly OpenMount[]): Promise<void> {
  await Promise.all(mounts.map(async ({ storage }) => storage.close?.()));
}

/** Path of the folder that is served; `undefined` for another storage. */
export function folderOf(source: string): string | undefined {
  try {
    const place = parseStorageUrl(source);
    return place.kind === "file" ? place.root : undefined;
  } catch (error) {
    return refuseStorage(error);
  }
}
