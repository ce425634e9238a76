import { createFileSink, type FileSink } from "./file-sink.ts";
import { bytesKey, folderOf, planKey, readObject, uploadPrefix } from "../store/layout.ts";
import type { FilePlan, FileRecord } from "../store/records.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { readJson } from "../store/small-object.ts";
import { openState, storeFiles } from "../store/store-files.ts";
import type { Turn } from "./turns.ts";
import { listAll, type UploadStorage } from "../slots/upload-storage.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";
import { uploadError } from "../slots/upload-error.ts";

/**
 * Makes one object of the parts of a file, and a file of the slot of that. The digest is of what was read
 * back. A crash on the way costs nothing: the parts are removed last.
 */
export async function assembleFile(
  parts: UploadsParts,
  slot: OpenSlot,
  { fileId, turn }: { readonly fileId: string; readonly turn: Pick<Turn, "ensureOurs"> },
  signal: AbortSignal,
): Promise<FileRecord> {
  const { storage } = parts;
  const folder = folderOf(slot);
  const begun = (await openState(parts, slot, signal)).unfinished.get(fileId);
  if (!begun) throw uploadError("not_found", "there is no such file");
  const plan = await readJson<FilePlan>(storage, planKey(folder, fileId), signal);
  const { accept, maxBytes } = slot.terms;
  const sink = await createFileSink(
    storage,
    bytesKey(folder, fileId),
    { ...plan, accept, maxBytes, size: begun.offset },
    // who slept until somebody else made more of the file must not replace that
    { signal, onBytes: () => {}, beforeCommit: () => turn.ensureOurs() },
  );
  let received: Awaited<ReturnType<FileSink["finish"]>>;
  try {
    for (const key of begun.parts) await copyPart(storage, key, sink, signal);
    received = await sink.finish();
  } catch (error) {
    await sink.abort();
    throw error;
  }
  const [record] = await storeFiles(parts, slot, [{ fileId, ...received }], signal);
  await removeParts(parts, slot, fileId, signal);
  return record!;
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

/** Removes the parts of a file, and its plan last: without a plan a part has no owner. */
export async function removeParts(
  { storage }: UploadsParts,
  slot: OpenSlot,
  fileId: string,
  signal: AbortSignal,
): Promise<void> {
  const objects = (await listAll(storage, uploadPrefix(slot.uploadId), signal)).map(readObject);
  for (const kind of ["part", "plan"] as const)
    for (const object of objects)
      if (object?.kind === kind && object.fileId === fileId)
        await storage.remove(object.info.key, { signal });
}

/** Removes all of a file that is not confirmed. */
export async function removeFile(
  parts: UploadsParts,
  slot: OpenSlot,
  fileId: string,
  signal: AbortSignal,
): Promise<void> {
  const { storage, ledger } = parts;
  for (const info of await listAll(storage, uploadPrefix(slot.uploadId), signal)) {
    const object = readObject(info);
    if (object?.kind !== "file") continue;
    const record = await readJson<FileRecord>(storage, info.key, signal);
    if (record.fileId === fileId) await storage.remove(info.key, { signal });
  }
  await storage.remove(bytesKey(folderOf(slot), fileId), { signal });
  await removeParts(parts, slot, fileId, signal);
  await ledger.drop(slot.owner, fileId);
}
