import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import type { QuotaTracker } from "../quota/quota-tracker.ts";
import type { FileSink } from "../receive/file-sink.ts";
import type { ProgressTracker } from "../receive/progress-tracker.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import {
  bytesKey,
  folderOf,
  planKey,
  readObject,
  recordKey,
  uploadPrefix,
  type FilePlan,
  type FileRecord,
} from "../store/layout.ts";
import type { SlotFiles } from "../store/slot-files.ts";
import { stateOf, type UploadState } from "../store/upload-state.ts";
import { createJson, listAll, readJson, type UploadStorage } from "../store/upload-storage.ts";
import type { LockLease } from "./write-lock.ts";

/** A file that comes in steps and is not whole. */
export interface PartialFile {
  readonly fileId: string;
  readonly plan: FilePlan;
  /** Bytes from the beginning without a gap. */
  readonly offset: number;
  /** Keys of the parts that make them, in order. */
  readonly parts: readonly string[];
}

/** What a slot has of a file. */
interface FileInSlot {
  readonly state: UploadState;
  /** The listing of the upload. */
  readonly listed: readonly ObjectInfo[];
  readonly file: PartialFile | { readonly record: FileRecord };
  /** Keys of its parts and then of its plan, the order of removal: a part without a plan belongs to no file. */
  readonly unfinishedKeys: readonly string[];
}

/** Files that come in steps, in storage. */
export interface PartialFiles {
  /** Rejects with `not_found` when the slot has no file of that id. Lists nothing. */
  ensure(slot: OpenSlot, fileId: string, signal: AbortSignal): Promise<void>;
  /** Keeps what was said of a file: from then on the slot has it. */
  begin(slot: OpenSlot, fileId: string, plan: FilePlan, signal: AbortSignal): Promise<void>;
  /** Finds how far a file is, with one listing. Rejects with `not_found`. */
  find(slot: OpenSlot, fileId: string, signal: AbortSignal): Promise<FileInSlot>;
  /**
   * Joins the parts of a file into one object, and stores that as a file of the slot. Its digest is of what was read back.
   * The parts are removed last, so a crash on the way costs nothing.
   */
  assemble(
    slot: OpenSlot,
    file: PartialFile,
    options: { readonly lease: Pick<LockLease, "ensureOurs">; readonly signal: AbortSignal },
  ): Promise<FileRecord>;
  /** Removes what {@link FileInSlot.unfinishedKeys} names. */
  removeUnfinished(keys: readonly string[], signal: AbortSignal): Promise<void>;
  /** Removes all of a file that is not confirmed, by the listing of its upload: a new one unless it is given. */
  remove(
    slot: OpenSlot,
    fileId: string,
    signal: AbortSignal,
    listed?: readonly ObjectInfo[],
  ): Promise<void>;
}

/** Makes them for a storage. */
export function createPartialFiles({
  storage,
  files,
  quota,
  progress,
}: {
  readonly storage: UploadStorage;
  readonly files: SlotFiles;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
}): PartialFiles {
  async function removeUnfinished(keys: readonly string[], signal: AbortSignal): Promise<void> {
    for (const key of keys) await storage.remove(key, { signal });
  }

  return {
    removeUnfinished,
    async ensure(slot, fileId, signal) {
      const folder = folderOf(slot);
      // the folder names the owner as well as the upload; a whole file has bytes and no plan
      for (const key of [planKey(folder, fileId), bytesKey(folder, fileId)])
        if (await unlessMissing(storage.describe(key, { signal }))) return;
      throw noFile();
    },
    async begin(slot, fileId, plan, signal) {
      await createJson(storage, planKey(folderOf(slot), fileId), plan, signal);
    },
    async find(slot, fileId, signal) {
      const listed = await listAll(storage, uploadPrefix(slot.uploadId), signal);
      const state = stateOf(listed);
      const unfinishedKeys = unfinishedKeysIn(listed.map(readObject), fileId);
      const folder = folderOf(slot);
      for (const place of state.places) {
        const record = await readJson<FileRecord>(storage, recordKey(folder, place), signal);
        if (record.fileId === fileId) return { state, listed, file: { record }, unfinishedKeys };
      }
      const begun = state.unfinished.get(fileId);
      if (!begun) throw noFile();
      const plan = await readJson<FilePlan>(storage, planKey(folder, fileId), signal);
      return { state, listed, file: { fileId, plan, ...begun }, unfinishedKeys };
    },
    async assemble(slot, { fileId, plan, offset, parts }, { lease, signal }) {
      const sink = await files.openSink(
        slot,
        { ...plan, fileId, size: offset },
        // a request that slept until another one made more of the file must not replace that
        { signal, beforeCommit: () => lease.ensureOurs() },
      );
      let received: Awaited<ReturnType<FileSink["finish"]>>;
      try {
        for (const key of parts) await copyPart(storage, key, sink, signal);
        received = await sink.finish();
      } catch (error) {
        await sink.abort();
        throw error;
      }
      const [record] = await files.store(slot, [{ fileId, ...received }], signal);
      await removeUnfinished([...parts, planKey(folderOf(slot), fileId)], signal);
      return record!;
    },
    async remove(slot, fileId, signal, listed) {
      progress.drop(slot.uploadId, fileId);
      const infos = listed ?? (await listAll(storage, uploadPrefix(slot.uploadId), signal));
      const objects = infos.map(readObject);
      for (const object of objects) {
        if (object?.kind !== "file") continue;
        const { key } = object.info;
        const record = await readJson<FileRecord>(storage, key, signal);
        if (record.fileId === fileId) await storage.remove(key, { signal });
      }
      await storage.remove(bytesKey(folderOf(slot), fileId), { signal });
      await removeUnfinished(unfinishedKeysIn(objects, fileId), signal);
      await quota.drop(slot.owner, fileId);
    },
  };
}

function unfinishedKeysIn(
  objects: readonly ReturnType<typeof readObject>[],
  fileId: string,
): string[] {
  return (["part", "plan"] as const).flatMap((kind) =>
    objects.flatMap((object) =>
      object?.kind === kind && object.fileId === fileId ? [object.info.key] : [],
    ),
  );
}

async function copyPart(
  storage: UploadStorage,
  key: string,
  sink: FileSink,
  signal: AbortSignal,
): Promise<void> {
  const { body } = await storage.open(key, { signal });
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      await sink.write(value);
    }
  } catch (error) {
    await reader.cancel(error).catch(() => {});
    throw error;
  }
}

function noFile(): SluiceError {
  return uploadError("not_found", "there is no such file");
}
