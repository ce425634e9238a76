import type { PartialFiles } from "./partial-files.ts";
import { wholeProgress, type FileProgress } from "./resumable-upload.ts";
import type { WriteLock } from "./write-lock.ts";
import type { UploadPageStore } from "../page/upload-pages.ts";
import type { OpenSlot, PresentedSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";

/** Says how far a file is (§4.3). Whatever goes on with it ends first. */
export async function inspectFile(
  { partials, lock }: { readonly partials: PartialFiles; readonly lock: WriteLock },
  slot: OpenSlot,
  fileId: string,
  { signal, onError }: { readonly signal: AbortSignal; readonly onError: (error: unknown) => void },
): Promise<FileProgress> {
  const lease = await lock.acquire(fileId, signal);
  try {
    const { file, unfinishedKeys } = await partials.find(slot, fileId, signal);
    if (!("record" in file)) return { fileId, offset: file.offset, length: file.plan.length };
    // a process that stopped between the file and its parts left them behind
    await partials.removeUnfinished(unfinishedKeys, signal).catch(onError);
    return wholeProgress(fileId, file.record);
  } finally {
    await lease.release();
  }
}

/** Gives a file up (§4.5): what came of it is removed, also when it is whole but not confirmed. */
export async function cancelFile(
  { partials, lock }: { readonly partials: PartialFiles; readonly lock: WriteLock },
  slot: PresentedSlot,
  fileId: string,
  {
    signal,
    pages,
  }: {
    readonly signal: AbortSignal;
    readonly pages: Pick<UploadPageStore, "isAnswered">;
  },
): Promise<void> {
  const lease = await lock.acquire(fileId, signal);
  try {
    const { isConfirmed } = await partials.find(slot, fileId, signal);
    if (isConfirmed)
      throw uploadError("already_exists", "this upload was confirmed or closed before");
    // a tool is about to take it
    if (slot.auth === "self" && (await pages.isAnswered(slot.uploadId)))
      throw uploadError("already_exists", "an answer names this file already");
    await partials.remove(slot, fileId, signal);
  } finally {
    await lease.release();
  }
}
