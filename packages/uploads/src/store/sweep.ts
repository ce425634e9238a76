import type { UploadRemover } from "../confirm/remove-upload.ts";
import type { CountedFile, QuotaTracker } from "../quota/quota-tracker.ts";
import { listAll, type UploadStorage } from "../slots/upload-storage.ts";
import { markerKey, readObject, uploadsPrefix, type UploadObject } from "./layout.ts";
import { readJson, type ConfirmationRecord } from "./records.ts";
import { endOf, graceMs, stateOf, type UploadState } from "./upload-state.ts";

/**
 * Removes unconfirmed uploads whose slot ended, or whose last byte came, more than 5 minutes ago, and what a confirmed
 * one has beside its files. Counts anew what each owner keeps.
 */
export async function sweepUploads(
  {
    storage,
    quota,
    remover,
    onError,
  }: {
    readonly storage: UploadStorage;
    readonly quota: QuotaTracker;
    readonly remover: Pick<UploadRemover, "discard">;
    readonly onError: (error: unknown) => void;
  },
  signal: AbortSignal,
): Promise<void> {
  const now = Date.now();
  const uploads = new Map<string, UploadObject[]>();
  for (const info of await listAll(storage, uploadsPrefix, signal)) {
    const object = readObject(info);
    if (!object) continue;
    const objects = uploads.get(object.uploadId);
    if (objects) objects.push(object);
    else uploads.set(object.uploadId, [object]);
  }
  const isOver = (state: UploadState): boolean => now >= endOf(state) + graceMs;
  const isWorthless = (state: UploadState): boolean =>
    isOver(state) && (state.phase !== "confirmed" || state.places.length === 0);
  const kept: CountedFile[] = [];
  for (const [uploadId, objects] of uploads)
    try {
      const state = stateOf(objects.map(({ info }) => info));
      if (isWorthless(state)) await remover.discard(uploadId, signal, isWorthless);
      else if (isOver(state))
        kept.push(...filesIn(await removeLeftovers(storage, objects, signal)));
      else kept.push(...filesIn(objects));
    } catch (error) {
      signal.throwIfAborted();
      // one that cannot be swept must not keep the others
      onError(error);
      kept.push(...filesIn(objects));
    }
  await quota.seed(kept, now);
}

/** Removes what a confirmed upload has beside its files: parts of others, and bytes that a crash left. */
async function removeLeftovers(
  storage: UploadStorage,
  objects: readonly UploadObject[],
  signal: AbortSignal,
): Promise<UploadObject[]> {
  const count = (wanted: UploadObject["kind"]): number =>
    objects.filter(({ kind }) => kind === wanted).length;
  const isClean = count("bytes") <= count("file") && count("part") + count("plan") === 0;
  if (isClean) return [...objects];
  const { files } = await readJson<ConfirmationRecord>(
    storage,
    markerKey(objects[0]!.folder),
    signal,
  );
  const fileIds = new Set(files.map(({ fileId }) => fileId));
  const kept: UploadObject[] = [];
  for (const object of objects)
    if ("fileId" in object && !(object.kind === "bytes" && fileIds.has(object.fileId)))
      await storage.remove(object.info.key, { signal });
    else kept.push(object);
  return kept;
}

/** Files and parts with their bytes, as they count for their owner. */
function filesIn(objects: readonly UploadObject[]): CountedFile[] {
  const files = new Map<string, CountedFile>();
  for (const object of objects) {
    if (!("fileId" in object)) continue;
    const { fileId, owner, info } = object;
    const bytes = (files.get(fileId)?.bytes ?? 0) + (info.size ?? 0);
    files.set(fileId, { owner, fileId, bytes });
  }
  return [...files.values()];
}
