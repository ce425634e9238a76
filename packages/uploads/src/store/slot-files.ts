import type { QuotaTracker } from "../limits/quota-tracker.ts";
import { exceedsStorage } from "../limits/room.ts";
import { openFileSink, type FileSink, type FileTerms } from "./file-sink.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import {
  bytesKey,
  folderOf,
  markerKey,
  recordKey,
  type ConfirmationRecord,
  type FileRecord,
} from "./layout.ts";
import { scanFile, type Scan } from "./scan.ts";
import { readState, type UploadState } from "./upload-state.ts";
import { createJson, findJson, readJson, type UploadStorage } from "./upload-storage.ts";

/** A file whose bytes are an object. */
export type ReceivedFile = Omit<FileRecord, "scan">;

interface SlotFilesParts {
  readonly storage: UploadStorage;
  readonly scan: Scan | undefined;
  readonly quota: QuotaTracker;
  /** Receives errors of removing; leftovers are swept later. */
  readonly onError: (error: unknown) => void;
}

/** The files of slots, in storage. */
export class SlotFiles {
  readonly #parts: SlotFilesParts;

  constructor(parts: SlotFilesParts) {
    this.#parts = parts;
  }

  /**
   * The state of a slot that takes more files: `known`, or what storage shows. Rejects with `already_exists` if it takes
   * no more.
   */
  async ensureOpen(slot: OpenSlot, signal: AbortSignal, known?: UploadState): Promise<UploadState> {
    const state = known ?? (await readState(this.#parts.storage, slot.uploadId, signal));
    const { phase, places } = state;
    if (phase === "confirmed") {
      // an upload that was closed without files may still have some that are being removed
      const confirmed = await confirmedIn(this.#parts.storage, slot, signal);
      throw noMoreFiles(places.length > 0 && confirmed?.size !== 0);
    }
    if (places.length >= slot.terms.maxFiles) throw tooManyFiles(places.length);
    return state;
  }

  openSink(
    slot: OpenSlot,
    { fileId, ...facts }: Omit<FileTerms, "accept" | "maxBytes"> & { readonly fileId: string },
    options: { readonly signal: AbortSignal; readonly beforeCommit?: () => void },
  ): Promise<FileSink> {
    const { accept, maxBytes } = slot.terms;
    const key = bytesKey(folderOf(slot), fileId);
    return openFileSink(this.#parts.storage, key, { ...facts, accept, maxBytes }, options);
  }

  /**
   * Adds received files to the slot, all or none: each is scanned and gets a record in a free place. If one fails, all are
   * removed; with `keepsBytes` their bytes stay, so that the caller can retry.
   */
  async store(
    slot: OpenSlot,
    files: readonly ReceivedFile[],
    signal: AbortSignal,
    { keepsBytes = false }: { readonly keepsBytes?: boolean } = {},
  ): Promise<FileRecord[]> {
    const { storage, quota, onError } = this.#parts;
    const places: RecordPlace[] = [];
    try {
      const records: FileRecord[] = [];
      for (const file of files) records.push(await this.#scanned(slot, file, signal));
      for (const record of records) await takePlace(storage, slot, { record, places }, signal);
      // a confirmation that came before these records does not name them
      const confirmed = await confirmedIn(storage, slot, signal);
      if (confirmed && !records.every(({ fileId }) => confirmed.has(fileId)))
        throw noMoreFiles(confirmed.size > 0);
      for (const { fileId, size } of records) await quota.settle(slot.owner, fileId, size);
      return records;
    } catch (error) {
      await this.#removeUnstored(slot, keepsBytes ? [] : files, places).catch(onError);
      for (const { fileId } of files) await quota.drop(slot.owner, fileId);
      throw error;
    }
  }

  async #scanned(slot: OpenSlot, file: ReceivedFile, signal: AbortSignal): Promise<FileRecord> {
    const { uploadId, terms } = slot;
    if (terms.sha256 !== undefined && terms.sha256 !== file.sha256)
      throw new RefusedFile("corrupt", "the bytes are not the ones that were declared");
    const key = bytesKey(folderOf(slot), file.fileId);
    const verdict = await scanFile(this.#parts, { ...file, uploadId, key }, signal);
    if (verdict === "reject")
      throw new RefusedFile("permission_denied", "the file was found to be harmful");
    return { ...file, scan: verdict === "defer" ? "deferred" : verdict };
  }

  /** Removes files that could not be stored, except those that another process may rely on, and those that may have a record. */
  async #removeUnstored(
    slot: OpenSlot,
    files: readonly ReceivedFile[],
    places: readonly RecordPlace[],
  ): Promise<void> {
    const { storage } = this.#parts;
    const confirmed = await confirmedIn(storage, slot, AbortSignal.timeout(removalMs));
    const keptIds = new Set(places.flatMap(({ fileId, isOurs }) => (isOurs ? [] : [fileId])));
    const isUnused = ({ fileId }: { readonly fileId: string }): boolean =>
      !keptIds.has(fileId) && confirmed?.has(fileId) !== true;
    // records first: one without its bytes would be taken for a whole file
    await Promise.all(places.filter(isUnused).map(({ key }) => storage.remove(key)));
    const bytes = files.filter(isUnused).map(({ fileId }) => bytesKey(folderOf(slot), fileId));
    await Promise.all(bytes.map((key) => storage.remove(key)));
  }
}

interface RecordPlace {
  readonly place: number;
  readonly fileId: string;
  readonly key: string;
  /** False if another process made this record of the same file first, and until storage says that it is made. */
  isOurs: boolean;
}

/** Ids of the files that were confirmed; `undefined` before that. */
export async function confirmedIn(
  storage: UploadStorage,
  slot: OpenSlot,
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const marker = await findJson<ConfirmationRecord>(storage, markerKey(folderOf(slot)), signal);
  return marker && new Set(marker.files.map(({ fileId }) => fileId));
}

const removalMs = 30_000;

/** Makes a record in the next free place, which it adds to `places`. */
async function takePlace(
  storage: UploadStorage,
  slot: OpenSlot,
  { record, places }: { readonly record: FileRecord; readonly places: RecordPlace[] },
  signal: AbortSignal,
): Promise<void> {
  const { fileId } = record;
  for (let place = (places.at(-1)?.place ?? -1) + 1; place < slot.terms.maxFiles; place++) {
    const key = recordKey(folderOf(slot), place);
    const recordPlace = { place, fileId, key, isOurs: false };
    // before the call: one that fails may have made the record, unless there was no room for it
    places.push(recordPlace);
    try {
      recordPlace.isOurs = await createJson(storage, key, record, signal);
    } catch (error) {
      if (exceedsStorage(error)) places.pop();
      throw error;
    }
    if (recordPlace.isOurs) return;
    const other = await readJson<FileRecord>(storage, key, signal);
    if (other.fileId === fileId) return;
    places.pop();
  }
  throw tooManyFiles(slot.terms.maxFiles);
}

function noMoreFiles(isConfirmed: boolean) {
  return uploadError(
    "already_exists",
    isConfirmed
      ? "this upload is confirmed already"
      : "this upload has ended and takes no more files",
  );
}

function tooManyFiles(files: number) {
  const what = files === 1 ? "there is one file" : `there are ${files} files`;
  return uploadError("already_exists", `${what} already, which is the maximum`);
}
