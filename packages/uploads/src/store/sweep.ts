import { discardUpload } from "../confirm/confirm.ts";
import { markerKey, readObject, uploadsPrefix, type UploadObject } from "./layout.ts";
import type { KeptFile } from "../quota/ledger.ts";
import type { Confirmation } from "./records.ts";
import { readJson } from "./small-object.ts";
import { endOf, stateOf, type UploadState } from "./upload-state.ts";
import { listAll } from "../slots/upload-storage.ts";
import { graceMs, type UploadsParts } from "../slots/uploads-parts.ts";

/**
 * Removes uploads that nobody confirmed and whose slot ended, or whose last byte came, more than 5 minutes ago,
 * what a confirmed one has beside its files, and counts anew what each owner keeps.
 */
export async function sweepUploads(parts: UploadsParts, signal: AbortSignal): Promise<void> {
  const { storage, ledger, host } = parts;
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
  const kept: KeptFile[] = [];
  for (const [uploadId, objects] of uploads)
    try {
      const state = stateOf(objects.map(({ info }) => info));
      if (isWorthless(state)) await discardUpload(parts, uploadId, signal, isWorthless);
      else if (isOver(state)) kept.push(...filesIn(await removeLeftovers(parts, objects, signal)));
      else kept.push(...filesIn(objects));
    } catch (error) {
      signal.throwIfAborted();
      // one that cannot be swept must not keep the others
      host.onError(error);
      kept.push(...filesIn(objects));
    }
  await ledger.seed(kept, now);
}

/** Removes what a confirmed upload has beside its files: parts of others, and bytes that a crash left. */
async function removeLeftovers(
  { storage }: UploadsParts,
  objects: readonly UploadObject[],
  signal: AbortSignal,
): Promise<UploadObject[]> {
  const count = (wanted: UploadObject["kind"]): number =>
    objects.filter(({ kind }) => kind === wanted).length;
  const isClean = count("bytes") <= count("file") && count("part") + count("plan") === 0;
  if (isClean) return [...objects];
  const { files } = await readJson<Confirmation>(storage, markerKey(objects[0]!.folder), signal);
  const fileIds = new Set(files.map(({ fileId }) => fileId));
  const kept: UploadObject[] = [];
  for (const object of objects)
    if ("fileId" in object && !(object.kind === "bytes" && fileIds.has(object.fileId)))
      await storage.remove(object.info.key, { signal });
    else kept.push(object);
  return kept;
}

/** Files and parts with their bytes, as they count for their owner. */
function filesIn(objects: readonly UploadObject[]): KeptFile[] {
  const files = new Map<string, KeptFile>();
  for (const object of objects) {
    if (!("fileId" in object)) continue;
    const { fileId, owner, info } = object;
    const bytes = (files.get(fileId)?.bytes ?? 0) + (info.size ?? 0);
    files.set(fileId, { owner, fileId, bytes });
  }
  return [...files.values()];
}
