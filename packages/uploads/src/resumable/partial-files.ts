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
  parseObject,
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
import type { ChecksMemory } from "../checks/file-checks.ts";
import { openFileInParts } from "./file-in-parts.ts";
import {
  beginFileInSteps,
  openFileInSteps,
  openStoredFile,
  type StepServices,
  type StepStorage,
} from "./file-in-steps.ts";
import type { FileAddress, PartialFile } from "./partial-file.ts";

/** What a listing of an upload shows. */
export interface UploadListing {
  readonly state: UploadState;
  readonly objects: readonly ObjectInfo[];
}

/** A file of a slot: unfinished or whole. Includes the listing, if one was made to find out. */
type FileInSlot =
  | { readonly file: PartialFile; readonly listing?: UploadListing }
  | { readonly record: FileRecord; readonly listing: UploadListing };

interface PartialFilesParts {
  readonly storage: UploadStorage;
  readonly files: SlotFiles;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
  readonly memory: ChecksMemory;
  /** Receives errors of removing; leftovers are swept later. */
  readonly onError: (error: unknown) => void;
}

/** Files that come in steps, in storage. */
export class PartialFiles {
  readonly #parts: PartialFilesParts;
  /** Absent if storage writes nothing in steps. */
  readonly #inSteps: StepServices | undefined;

  constructor(parts: PartialFilesParts) {
    const { storage, memory, onError } = parts;
    this.#parts = parts;
    this.#inSteps = hasSteps(storage) ? { storage, memory, onError } : undefined;
  }

  async list(slot: OpenSlot, signal: AbortSignal): Promise<UploadListing> {
    const objects = await listAll(this.#parts.storage, uploadPrefix(slot.uploadId), signal);
    return { objects, state: stateOf(objects) };
  }

  /** Rejects with `not_found` when the slot has no file of that id. Lists nothing. */
  async ensure(slot: OpenSlot, fileId: string, signal: AbortSignal): Promise<void> {
    const { storage } = this.#parts;
    const folder = folderOf(slot);
    // the folder contains the owner, so a foreign file is not found; a whole file has bytes and no plan. The plan is
    // read and not described, because `describe` may wait until storage names a version of a new object
    if (await findJson(storage, planKey(folder, fileId), signal)) return;
    if (await unlessMissing(storage.describe(bytesKey(folder, fileId), { signal }))) return;
    throw noFile();
  }

  /** Opens a new file and writes its plan, from which on the slot has the file. */
  async begin(address: FileAddress, plan: FilePlan, signal: AbortSignal): Promise<PartialFile> {
    const { storage, onError } = this.#parts;
    const { slot, fileId } = address;
    const file = this.#inSteps
      ? await beginFileInSteps(this.#inSteps, address, plan)
      : openFileInParts(this.#parts, address, { plan, offset: 0, parts: [] });
    try {
      await createJson(storage, planKey(folderOf(slot), fileId), file.plan, signal);
      return file;
    } catch (error) {
      await file.discard().catch(onError);
      throw error;
    }
  }

  /**
   * Opens a file; rejects with `not_found` if the slot does not have it. Lists the upload only if the parts of the file
   * are objects, or storage has nothing to resume.
   */
  async open(address: FileAddress, signal: AbortSignal): Promise<FileInSlot> {
    const { slot, fileId } = address;
    const key = planKey(folderOf(slot), fileId);
    const plan = await findJson<FilePlan>(this.#parts.storage, key, signal);
    if (!plan || plan.steps === undefined || !this.#inSteps)
      return this.#openListed(address, plan, signal);
    const { steps } = plan;
    const file = await openFileInSteps(this.#inSteps, address, { ...plan, steps });
    return file ? { file } : this.#openListed(address, plan, signal);
  }

  /**
   * Makes a file whole and adds it to its slot. The objects that showed its progress are removed last, so a crash
   * on the way costs nothing.
   */
  async finish(
    slot: OpenSlot,
    file: PartialFile,
    { listing, signal }: { readonly listing: UploadListing; readonly signal: AbortSignal },
  ): Promise<FileRecord> {
    const { storage, files } = this.#parts;
    const received = await file.finish(signal);
    // a file that storage takes in steps has no parts to join again
    const keepsBytes = file.plan.steps !== undefined;
    const [record] = await files.store(slot, [received], signal, { keepsBytes });
    const listedKeys = progressObjectsOf(listing.objects, file.fileId).map(({ info }) => info.key);
    const lastKey = planKey(folderOf(slot), file.fileId);
    const keys = new Set([...listedKeys, ...file.keys()]);
    keys.delete(lastKey);
    for (const key of [...keys, lastKey]) await storage.remove(key, { signal });
    return record!;
  }

  /** Removes a file's plan, parts and step records. */
  async removeUnfinished(
    fileId: string,
    { objects }: Pick<UploadListing, "objects">,
    signal: AbortSignal,
  ): Promise<void> {
    for (const object of progressObjectsOf(objects, fileId))
      await removeObject(this.#parts.storage, object, signal);
  }

  /** Removes everything of an unconfirmed file. Rejects with `not_found` if a given listing does not have it. */
  async remove(
    slot: OpenSlot,
    fileId: string,
    signal: AbortSignal,
    listing?: UploadListing,
  ): Promise<void> {
    const { storage, quota, progress } = this.#parts;
    progress.drop(slot.uploadId, fileId);
    const found = listing ?? (await this.list(slot, signal));
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
    await this.removeUnfinished(fileId, found, signal);
    await quota.drop(slot.owner, fileId);
  }

  async #openListed(
    address: FileAddress,
    plan: FilePlan | undefined,
    signal: AbortSignal,
  ): Promise<FileInSlot> {
    const { slot, fileId } = address;
    const listing = await this.list(slot, signal);
    const record = await this.#findRecord(address, listing, signal);
    if (record) return { record, listing };
    const unfinished = listing.state.unfinished.get(fileId);
    if (!unfinished || !plan) throw noFile();
    if (plan.steps === undefined) {
      const file = openFileInParts(this.#parts, address, { plan, ...unfinished });
      return { file, listing };
    }
    const key = bytesKey(folderOf(slot), fileId);
    const size = listing.objects.find((info) => info.key === key)?.size;
    // storage has dropped what it had of the file, such as after a week
    if (size === undefined) throw noFile();
    return { file: openStoredFile(this.#parts.storage, address, { plan, size }), listing };
  }

  /** The record of a file that is whole. */
  async #findRecord(
    { slot, fileId }: Pick<FileAddress, "slot" | "fileId">,
    { state }: UploadListing,
    signal: AbortSignal,
  ): Promise<FileRecord | undefined> {
    for (const place of state.places) {
      const key = recordKey(folderOf(slot), place);
      const record = await readJson<FileRecord>(this.#parts.storage, key, signal);
      if (record.fileId === fileId) return record;
    }
    return undefined;
  }
}

function hasSteps(storage: UploadStorage): storage is StepStorage {
  return storage.writeInSteps !== undefined;
}

/** Objects that show how far a file is, in the order of removal: without its plan nothing belongs to a file. */
function progressObjectsOf(objects: readonly ObjectInfo[], fileId: string): UploadObject[] {
  const parsed = objects.map(parseObject);
  return (["part", "step", "plan"] as const).flatMap((kind) =>
    parsed.flatMap((object) => (object?.kind === kind && object.fileId === fileId ? [object] : [])),
  );
}

function noFile(): SluiceError {
  return uploadError("not_found", "there is no such file");
}
