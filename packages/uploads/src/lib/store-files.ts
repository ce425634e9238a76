import { SluiceError } from "@sluice/core";
import { bytesKey, folderOf, recordKey, uploadPrefix } from "./layout.ts";
import type { FileRecord } from "./records.ts";
import { scanFile } from "./scan.ts";
import type { OpenSlot } from "./slot-token.ts";
import { createJson } from "./small-object.ts";
import { stateOf, type UploadState } from "./upload-state.ts";
import { listAll } from "./upload-storage.ts";
import type { UploadsParts } from "./uploads-parts.ts";

/** A file whose bytes are an object. */
export type ReceivedFile = Omit<FileRecord, "scan">;

/** How far the upload of a slot is; throws `already_exists` when it takes no more files. */
export async function openState(
  { storage }: UploadsParts,
  slot: OpenSlot,
  signal: AbortSignal,
): Promise<UploadState> {
  const state = stateOf(await listAll(storage, uploadPrefix(slot.uploadId), signal));
  if (state.phase === "confirmed") throw taken("this upload is confirmed already");
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
  const { storage, ledger, host } = parts;
  const folder = folderOf(slot);
  const made: string[] = [];
  try {
    const records: FileRecord[] = [];
    const { sha256 } = slot.terms;
    for (const file of files) {
      if (sha256 !== undefined && sha256 !== file.sha256)
        throw new SluiceError("corrupt", "uploads: the bytes are not the ones that were declared");
      const key = bytesKey(folder, file.fileId);
      const verdict = await scanFile(parts, slot.uploadId, key, file, signal);
      if (verdict === "reject")
        throw new SluiceError("permission_denied", "uploads: the file was found to be harmful");
      records.push({ ...file, scan: verdict === "defer" ? "deferred" : verdict });
    }
    for (const record of records) made.push(await takePlace(parts, slot, record, signal));
    // whoever confirmed meanwhile did so without these
    const state = stateOf(await listAll(storage, uploadPrefix(slot.uploadId), signal));
    if (state.phase === "confirmed") throw taken("this upload is confirmed already");
    for (const { fileId, size } of records) ledger.settle(slot.owner, fileId, size);
    return records;
  } catch (error) {
    const keys = [...made, ...files.map(({ fileId }) => bytesKey(folder, fileId))];
    await Promise.all(keys.map((key) => storage.remove(key))).catch(host.onError);
    for (const { fileId } of files) ledger.drop(slot.owner, fileId);
    throw error;
  }
}

async function takePlace(
  { storage }: UploadsParts,
  slot: OpenSlot,
  record: FileRecord,
  signal: AbortSignal,
): Promise<string> {
  for (let place = 0; place < slot.terms.maxFiles; place++) {
    const key = recordKey(folderOf(slot), place);
    if (await createJson(storage, key, record, signal)) return key;
  }
  throw taken(`there are ${slot.terms.maxFiles} files already, which is the most`);
}

function taken(why: string): SluiceError {
  return new SluiceError("already_exists", `uploads: ${why}`);
}
