import { SluiceError } from "@sluice/core";
import { bytesKey, folderOf, markerKey, recordKey, uploadPrefix } from "./layout.ts";
import type { Confirmation, FileRecord } from "./records.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import { scanFile } from "./scan.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { createJson, readJson } from "./small-object.ts";
import { stateOf, type UploadState } from "./upload-state.ts";
import { listAll } from "../slots/upload-storage.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

/** A file whose bytes are an object. */
export type ReceivedFile = Omit<FileRecord, "scan">;

/** How far the upload of a slot is; throws `already_exists` when it takes no more files. */
export async function openState(
  { storage }: UploadsParts,
  slot: OpenSlot,
  signal: AbortSignal,
): Promise<UploadState> {
  const state = stateOf(await listAll(storage, uploadPrefix(slot.uploadId), signal));
  if (state.phase === "confirmed") throw over(state.places.length > 0);
  if (state.places.length >= slot.terms.maxFiles)
    throw taken(`there are ${state.places.length} files already, which is the most`);
  return state;
}

/**
 * Makes received files those of the slot: each is looked into and gets a record in a free place. When one
 * cannot be, none is, and nothing of them is kept.
 */
export async function storeFiles(
  parts: UploadsParts,
  slot: OpenSlot,
  files: readonly ReceivedFile[],
  signal: AbortSignal,
): Promise<FileRecord[]> {
  const { ledger, host } = parts;
  const folder = folderOf(slot);
  const places: Place[] = [];
  try {
    const records: FileRecord[] = [];
    const { sha256 } = slot.terms;
    for (const file of files) {
      if (sha256 !== undefined && sha256 !== file.sha256)
        throw new RefusedFile("corrupt", "the bytes are not the ones that were declared");
      const key = bytesKey(folder, file.fileId);
      const verdict = await scanFile(parts, slot.uploadId, key, file, signal);
      if (verdict === "reject")
        throw new RefusedFile("permission_denied", "the file was found to be harmful");
      records.push({ ...file, scan: verdict === "defer" ? "deferred" : verdict });
    }
    for (const record of records) {
      const from = (places.at(-1)?.place ?? -1) + 1;
      places.push(await takePlace(parts, slot, { record, from }, signal));
    }
    const confirmed = await confirmedIn(parts, slot, signal);
    if (confirmed && !records.every(({ fileId }) => confirmed.has(fileId)))
      throw over(confirmed.size > 0);
    for (const { fileId, size } of records) await ledger.settle(slot.owner, fileId, size);
    return records;
  } catch (error) {
    await removeAgain(parts, slot, { files, places }).catch(host.onError);
    for (const { fileId } of files) await ledger.drop(slot.owner, fileId);
    throw error;
  }
}

/** Where the record of a file is. */
interface Place {
  readonly place: number;
  readonly fileId: string;
  readonly key: string;
  /** Another process put the parts of the file together as well, and was first. */
  readonly isShared: boolean;
}

/** Ids of the files that were confirmed; `undefined` before that. */
async function confirmedIn(
  { storage }: UploadsParts,
  slot: OpenSlot,
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const state = stateOf(await listAll(storage, uploadPrefix(slot.uploadId), signal));
  if (state.phase !== "confirmed") return undefined;
  const { files } = await readJson<Confirmation>(storage, markerKey(folderOf(slot)), signal);
  return new Set(files.map(({ fileId }) => fileId));
}

/** Removes files that could not be stored, but none that somebody else has or believes to have. */
async function removeAgain(
  parts: UploadsParts,
  slot: OpenSlot,
  { files, places }: { readonly files: readonly ReceivedFile[]; readonly places: readonly Place[] },
): Promise<void> {
  const { storage } = parts;
  const confirmed = await confirmedIn(parts, slot, AbortSignal.timeout(removalMs));
  const shared = new Set(places.flatMap(({ fileId, isShared }) => (isShared ? [fileId] : [])));
  const isOurs = ({ fileId }: { readonly fileId: string }): boolean =>
    !shared.has(fileId) && confirmed?.has(fileId) !== true;
  const records = places.filter(isOurs).map(({ key }) => key);
  const bytes = files.filter(isOurs).map(({ fileId }) => bytesKey(folderOf(slot), fileId));
  await Promise.all([...records, ...bytes].map((key) => storage.remove(key)));
}

const removalMs = 30_000;

async function takePlace(
  { storage }: UploadsParts,
  slot: OpenSlot,
  { record, from }: { readonly record: FileRecord; readonly from: number },
  signal: AbortSignal,
): Promise<Place> {
  const { fileId } = record;
  for (let place = from; place < slot.terms.maxFiles; place++) {
    const key = recordKey(folderOf(slot), place);
    if (await createJson(storage, key, record, signal))
      return { place, fileId, key, isShared: false };
    const other = await readJson<FileRecord>(storage, key, signal);
    if (other.fileId === fileId) return { place, fileId, key, isShared: true };
  }
  throw taken(`there are ${slot.terms.maxFiles} files already, which is the most`);
}

function over(isConfirmed: boolean): SluiceError {
  return taken(
    isConfirmed
      ? "this upload is confirmed already"
      : "this upload is over, and takes no more files",
  );
}

function taken(why: string): SluiceError {
  return uploadError("already_exists", why);
}
