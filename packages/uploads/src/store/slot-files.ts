import type { QuotaTracker } from "../limits/quota-tracker.ts";
import { createFileSink, type FileSink, type FileTerms } from "./file-sink.ts";
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
import type { ScanFile } from "./scan.ts";
import { readState, type UploadState } from "./upload-state.ts";
import { createJson, findJson, readJson, type UploadStorage } from "./upload-storage.ts";

/** A file whose bytes are an object. */
export type ReceivedFile = Omit<FileRecord, "scan">;

/** The files of slots, in storage. */
export interface SlotFiles {
  /** How far the upload of a slot is; rejects with `already_exists` when it takes no more files. */
  stateOf(slot: OpenSlot, signal: AbortSignal): Promise<UploadState>;
  /** Rejects with `already_exists` when an upload in this state takes no more files. */
  ensureOpen(slot: OpenSlot, state: UploadState, signal: AbortSignal): Promise<void>;
  /** Opens a sink for the bytes of one file. */
  openSink(
    slot: OpenSlot,
    file: Omit<FileTerms, "accept" | "maxBytes"> & { readonly fileId: string },
    options: { readonly signal: AbortSignal; readonly beforeCommit?: () => void },
  ): Promise<FileSink>;
  /**
   * Makes received files those of the slot: each is scanned and gets a record in a free place. When one cannot be, none
   * is, and nothing of them is kept; with `keepsBytes` their bytes are, so that it can be tried again.
   */
  store(
    slot: OpenSlot,
    files: readonly ReceivedFile[],
    signal: AbortSignal,
    options?: { readonly keepsBytes?: boolean },
  ): Promise<FileRecord[]>;
}

/** Makes them for a storage. What cannot be removed goes to `onError`, and is swept later. */
export function createSlotFiles({
  storage,
  scanFile,
  quota,
  onError,
}: {
  readonly storage: UploadStorage;
  readonly scanFile: ScanFile;
  readonly quota: QuotaTracker;
  readonly onError: (error: unknown) => void;
}): SlotFiles {
  async function ensureOpen(
    slot: OpenSlot,
    { phase, places }: UploadState,
    signal: AbortSignal,
  ): Promise<void> {
    if (phase === "confirmed") {
      // what was closed without files may still have some that go
      const confirmed = await confirmedIn(storage, slot, signal);
      throw noMoreFiles(places.length > 0 && confirmed?.size !== 0);
    }
    if (places.length >= slot.terms.maxFiles) throw tooManyFiles(places.length);
  }

  async function scanned(
    slot: OpenSlot,
    file: ReceivedFile,
    signal: AbortSignal,
  ): Promise<FileRecord> {
    const { uploadId, terms } = slot;
    if (terms.sha256 !== undefined && terms.sha256 !== file.sha256)
      throw new RefusedFile("corrupt", "the bytes are not the ones that were declared");
    const key = bytesKey(folderOf(slot), file.fileId);
    const verdict = await scanFile({ ...file, uploadId, key }, signal);
    if (verdict === "reject")
      throw new RefusedFile("permission_denied", "the file was found to be harmful");
    return { ...file, scan: verdict === "defer" ? "deferred" : verdict };
  }

  /** Removes files that could not be stored, but none that another process has or believes to have. */
  async function removeStored(
    slot: OpenSlot,
    files: readonly ReceivedFile[],
    places: readonly RecordPlace[],
  ): Promise<void> {
    const confirmed = await confirmedIn(storage, slot, AbortSignal.timeout(removalMs));
    const shared = new Set(places.flatMap(({ fileId, isShared }) => (isShared ? [fileId] : [])));
    const isOurs = ({ fileId }: { readonly fileId: string }): boolean =>
      !shared.has(fileId) && confirmed?.has(fileId) !== true;
    const records = places.filter(isOurs).map(({ key }) => key);
    const bytes = files.filter(isOurs).map(({ fileId }) => bytesKey(folderOf(slot), fileId));
    await Promise.all([...records, ...bytes].map((key) => storage.remove(key)));
  }

  return {
    async stateOf(slot, signal) {
      const state = await readState(storage, slot.uploadId, signal);
      await ensureOpen(slot, state, signal);
      return state;
    },
    ensureOpen,
    openSink(slot, { fileId, ...facts }, options) {
      const { accept, maxBytes } = slot.terms;
      const key = bytesKey(folderOf(slot), fileId);
      return createFileSink(storage, key, { ...facts, accept, maxBytes }, options);
    },
    async store(slot, files, signal, { keepsBytes = false } = {}) {
      const places: RecordPlace[] = [];
      try {
        const records: FileRecord[] = [];
        for (const file of files) records.push(await scanned(slot, file, signal));
        for (const record of records) {
          const from = (places.at(-1)?.place ?? -1) + 1;
          places.push(await takePlace(storage, slot, { record, from }, signal));
        }
        // a confirmation that came before these records does not name them
        const confirmed = await confirmedIn(storage, slot, signal);
        if (confirmed && !records.every(({ fileId }) => confirmed.has(fileId)))
          throw noMoreFiles(confirmed.size > 0);
        for (const { fileId, size } of records) await quota.settle(slot.owner, fileId, size);
        return records;
      } catch (error) {
        await removeStored(slot, keepsBytes ? [] : files, places).catch(onError);
        for (const { fileId } of files) await quota.drop(slot.owner, fileId);
        throw error;
      }
    },
  };
}

/** Where the record of a file is. */
interface RecordPlace {
  readonly place: number;
  readonly fileId: string;
  readonly key: string;
  /** Another process put the parts of the file together as well, and was first. */
  readonly isShared: boolean;
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

async function takePlace(
  storage: UploadStorage,
  slot: OpenSlot,
  { record, from }: { readonly record: FileRecord; readonly from: number },
  signal: AbortSignal,
): Promise<RecordPlace> {
  const { fileId } = record;
  for (let place = from; place < slot.terms.maxFiles; place++) {
    const key = recordKey(folderOf(slot), place);
    if (await createJson(storage, key, record, signal))
      return { place, fileId, key, isShared: false };
    const other = await readJson<FileRecord>(storage, key, signal);
    if (other.fileId === fileId) return { place, fileId, key, isShared: true };
  }
  throw tooManyFiles(slot.terms.maxFiles);
}

function noMoreFiles(isConfirmed: boolean) {
  return uploadError(
    "already_exists",
    isConfirmed
      ? "this upload is confirmed already"
      : "this upload is over, and takes no more files",
  );
}

function tooManyFiles(files: number) {
  const what = files === 1 ? "there is one file" : `there are ${files} files`;
  return uploadError("already_exists", `${what} already, which is the most`);
}
