import { createSha256, sanitizeFileName } from "@sluice/core/internal";
import type { Reply } from "@sluice/server/internal";
import type { PresentedSlot } from "../slots/slot-token.ts";
import type { UploadProgress } from "../slots/slots.ts";
import { codeOf } from "../slots/upload-error.ts";
import {
  beginningBytes,
  folderOf,
  planKey,
  readRecords,
  type Beginning,
  type FilePlan,
} from "../store/layout.ts";
import { confirmedIn } from "../store/slot-files.ts";
import { readState, type UploadState } from "../store/upload-state.ts";
import { readJson, type UploadStorage } from "../store/upload-storage.ts";
import { jsonReply, limitHeaders } from "./answers.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";

interface UnfinishedFile {
  readonly fileId: string;
  readonly name?: string | undefined;
  /** Bytes of the whole, where they are known. */
  readonly size?: number | undefined;
  readonly received: number;
  /** Of what is there. */
  readonly beginning?: Beginning | undefined;
}

/**
 * Says how far an upload is, to a client that watches it. A slot of a page also names its files by id and lists what was
 * begun, so that a page that was loaded again goes on with them.
 */
export async function overviewOf(
  { storage, progress }: { readonly storage: UploadStorage; readonly progress: ProgressTracker },
  slot: PresentedSlot,
  signal: AbortSignal,
): Promise<Reply> {
  for (let attempt = 1; ; attempt++)
    try {
      return await lookAt(storage, slot, { progress: progress.of(slot.uploadId), signal });
    } catch (error) {
      // a file became whole, or was removed, between the listing and the look at it
      if (codeOf(error) !== "not_found" || attempt === attempts) throw error;
    }
}

const attempts = 4;

async function lookAt(
  storage: UploadStorage,
  slot: PresentedSlot,
  { progress, signal }: { readonly progress: UploadProgress; readonly signal: AbortSignal },
): Promise<Reply> {
  const { uploadId } = slot;
  const isOfPage = slot.auth === "self";
  const state = await readState(storage, uploadId, signal);
  const isOver = state.phase === "confirmed";
  const places = isOver ? [] : state.places;
  const records = await readRecords(storage, { ...state, folder: folderOf(slot), places }, signal);
  const files = records.map(({ fileId, name, size, mimeType, sha256 }) => ({
    // JSON leaves out a member of undefined
    fileId: isOfPage ? fileId : undefined,
    // a page shows what came without a name, such as from curl, and names it in its answer
    name: isOfPage ? (name ?? sanitizeFileName()) : name,
    size,
    mimeType,
    sha256,
  }));
  const whole = new Set(records.map(({ fileId }) => fileId));
  // an upload that was closed without files may still have some that are being removed
  const isClosed =
    isOver && (state.places.length === 0 || (await confirmedIn(storage, slot, signal))?.size === 0);
  const unfinished = isOfPage && !isOver ? await unfinishedOf(storage, slot, state, signal) : [];
  return jsonReply(
    200,
    {
      uploadId,
      status: isClosed ? "closed" : state.phase,
      received: progress.bytes,
      total: progress.totalBytes,
      files,
      unfinished: isOfPage ? unfinished.filter(({ fileId }) => !whole.has(fileId)) : undefined,
    },
    limitHeaders(slot),
  );
}

async function unfinishedOf(
  storage: UploadStorage,
  slot: PresentedSlot,
  { unfinished }: UploadState,
  signal: AbortSignal,
): Promise<UnfinishedFile[]> {
  const files: UnfinishedFile[] = [];
  for (const [fileId, { offset, parts }] of unfinished) {
    const key = planKey(folderOf(slot), fileId);
    const { name, length, beginning } = await readJson<FilePlan>(storage, key, signal);
    const [first] = parts;
    files.push({
      fileId,
      name,
      size: length,
      received: offset,
      beginning: first === undefined ? beginning : await beginningOf(storage, first, signal),
    });
  }
  return files;
}

async function beginningOf(
  storage: UploadStorage,
  key: string,
  signal: AbortSignal,
): Promise<Beginning> {
  const { body } = await storage.open(key, {
    range: { start: 0, end: beginningBytes },
    signal,
  });
  const bytes = new Uint8Array(await new Response(body).arrayBuffer());
  const hash = createSha256();
  hash.update(bytes);
  return { bytes: bytes.length, sha256: hash.digest() };
}
