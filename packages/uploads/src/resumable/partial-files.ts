import type { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import type { QuotaTracker } from "../limits/quota-tracker.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import {
  bytesKey,
  type FilePlan,
  type FileRecord,
  folderOf,
  planKey,
  readObject,
  recordKey,
  removeObject,
  type UploadObject,
  uploadPrefix,
} from "../store/layout.ts";
import type { SlotFiles } from "../store/slot-files.ts";
import { stateOf, type UploadState } from "../store/upload-state.ts";
import {
  createJson,
  findJson,
  listAll,
  readJson,
  type UploadStorage,
} from "../store/upload-storage.ts";
import type { ChecksMemory } from "./checks-memory.ts";
import { openFileInParts } from "./file-in-parts.ts";
import {
  beginFileInSteps,
  openFileInSteps,
  openStoredFile,
  type StepStorage,
} from "./file-in-steps.ts";
import type { FileAddress, PartialFile } from "./partial-file.ts";

/** What a listing of an upload shows. */
export interface UploadListing {
  readonly state: UploadState;
  readonly listed: readonly ObjectInfo[];
}

/** A file that a slot has: one to go on with, or a whole one. A listing that was needed to tell is given, too. */
type FileInSlot =
  | { readonly file: PartialFile; readonly listing?: UploadListing }
  | { readonly record: FileRecord; readonly listing: UploadListing };

/** Files that come in steps, in storage. */
export interface PartialFiles {
  /** Rejects with `not_found` when the slot has no file of that id. Lists nothing. */
  ensure(slot: OpenSlot, fileId: string, signal: AbortSignal): Promise<void>;
  /** Keeps what was said of a file: from then on the slot has it. Gives it open. */
  begin(address: FileAddress, plan: FilePlan, signal: AbortSignal): Promise<PartialFile>;
  /**
   * Opens a file. Rejects with `not_found`. It lists the upload where the parts of the file are objects, and where the
   * file is whole.
   */
  open(address: FileAddress, signal: AbortSignal): Promise<FileInSlot>;
  /** Lists an upload. */
  list(slot: OpenSlot, signal: AbortSignal): Promise<UploadListing>;
  /**
   * Makes a file whole and one of its slot. What showed how far it was is removed last, so a crash on the way costs
   * nothing.
   */
  finish(
    slot: OpenSlot,
    file: PartialFile,
    options: { readonly listing: UploadListing; readonly signal: AbortSignal },
  ): Promise<FileRecord>;
  /** Removes what shows how far a file was. */
  removeUnfinished(fileId: string, listing: UploadListing, signal: AbortSignal): Promise<void>;
  /** Removes all of a file that is not confirmed. Rejects with `not_found` when a given listing does not have it. */
  remove(
    slot: OpenSlot,
    fileId: string,
    signal: AbortSignal,
    listing?: UploadListing,
  ): Promise<void>;
}

/** Makes them for a storage. What cannot be removed goes to `onError`, and is swept later. */
export function createPartialFiles({
  storage,
  files,
  quota,
  progress,
  memory,
  onError,
}: {
  readonly storage: UploadStorage;
  readonly files: SlotFiles;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
  readonly memory: ChecksMemory;
  readonly onError: (error: unknown) => void;
}): PartialFiles {
  const inSteps = hasSteps(storage) ? { storage, memory, onError } : undefined;

  async function list(slot: OpenSlot, signal: AbortSignal): Promise<UploadListing> {
    const listed = await listAll(storage, uploadPrefix(slot.uploadId), signal);
    return { listed, state: stateOf(listed) };
  }

  /** The record of a file that is whole. */
  async function findRecord(
    { slot, fileId }: Pick<FileAddress, "slot" | "fileId">,
    { state }: UploadListing,
    signal: AbortSignal,
  ): Promise<FileRecord | undefined> {
    for (const place of state.places) {
      const key = recordKey(folderOf(slot), place);
      const record = await readJson<FileRecord>(storage, key, signal);
      if (record.fileId === fileId) return record;
    }
    return undefined;
  }

  async function openListed(
    address: FileAddress,
    plan: FilePlan | undefined,
    signal: AbortSignal,
  ): Promise<FileInSlot> {
    const { slot, fileId } = address;
    const listing = await list(slot, signal);
    const record = await findRecord(address, listing, signal);
    if (record) return { record, listing };
    const begun = listing.state.unfinished.get(fileId);
    if (!begun || !plan) throw noFile();
    if (plan.steps === undefined) {
      const file = openFileInParts({ storage, files }, address, { plan, ...begun });
      return { file, listing };
    }
    const key = bytesKey(folderOf(slot), fileId);
    const size = listing.listed.find((info) => info.key === key)?.size;
    // storage has dropped what it had of the file, such as after a week
    if (size === undefined) throw noFile();
    return { file: openStoredFile(storage, address, { plan, size }), listing };
  }

  async function removeUnfinished(
    fileId: string,
    { listed }: Pick<UploadListing, "listed">,
    signal: AbortSignal,
  ): Promise<void> {
    for (const object of unfinishedIn(listed, fileId)) await removeObject(storage, object, signal);
  }

  return {
    list,
    removeUnfinished,
    async ensure(slot, fileId, signal) {
      const folder = folderOf(slot);
      // the folder names the owner as well as the upload; a whole file has bytes and no plan. The plan is read, because
      // `describe` waits for a version of what has just been written
      if (await findJson(storage, planKey(folder, fileId), signal)) return;
      if (await unlessMissing(storage.describe(bytesKey(folder, fileId), { signal }))) return;
      throw noFile();
    },
    async begin(address, plan, signal) {
      const { slot, fileId } = address;
      const file = inSteps
        ? await beginFileInSteps(inSteps, address, plan)
        : openFileInParts({ storage, files }, address, { plan, offset: 0, parts: [] });
      try {
        await createJson(storage, planKey(folderOf(slot), fileId), file.plan, signal);
        return file;
      } catch (error) {
        await file.discard().catch(onError);
        throw error;
      }
    },
    async open(address, signal) {
      const { slot, fileId } = address;
      const plan = await findJson<FilePlan>(storage, planKey(folderOf(slot), fileId), signal);
      if (!plan || plan.steps === undefined || !inSteps) return openListed(address, plan, signal);
      const { steps } = plan;
      const file = await openFileInSteps(inSteps, address, { ...plan, steps });
      if (!file) return openListed(address, plan, signal);
      return { file };
    },
    async finish(slot, file, { listing, signal }) {
      const received = await file.finish(signal);
      // in steps there are no other bytes to try again with
      const keepsBytes = file.plan.steps !== undefined;
      const [record] = await files.store(slot, [received], signal, { keepsBytes });
      const listed = unfinishedIn(listing.listed, file.fileId).map(({ info }) => info.key);
      const plan = planKey(folderOf(slot), file.fileId);
      const keys = new Set([...listed, ...file.keys()]);
      keys.delete(plan);
      for (const key of [...keys, plan]) await storage.remove(key, { signal });
      return record!;
    },
    async remove(slot, fileId, signal, listing) {
      progress.drop(slot.uploadId, fileId);
      const found = listing ?? (await list(slot, signal));
      const isBegun = found.state.unfinished.has(fileId);
      const folder = folderOf(slot);
      let isWhole = false;
      for (const place of found.state.places) {
        const key = recordKey(folder, place);
        const record = await readJson<FileRecord>(storage, key, signal);
        if (record.fileId !== fileId) continue;
        isWhole = true;
        await storage.remove(key, { signal });
      }
      if (listing && !isWhole && !isBegun) throw noFile();
      await storage.remove(bytesKey(folder, fileId), { signal });
      await removeUnfinished(fileId, found, signal);
      await quota.drop(slot.owner, fileId);
    },
  };
}

function hasSteps(storage: UploadStorage): storage is StepStorage {
  return storage.writeInSteps !== undefined;
}

/** Objects that show how far a file is, in the order of removal: without its plan nothing belongs to a file. */
function unfinishedIn(listed: readonly ObjectInfo[], fileId: string): UploadObject[] {
  const objects = listed.map(readObject);
  return (["part", "step", "plan"] as const).flatMap((kind) =>
    objects.flatMap((object) =>
      object?.kind === kind && object.fileId === fileId ? [object] : [],
    ),
  );
}

function noFile(): SluiceError {
  return uploadError("not_found", "there is no such file");
}
