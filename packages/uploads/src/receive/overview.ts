import { createSha256, SluiceError } from "@sluice/core";
import type { Reply } from "@sluice/server/transport";
import { jsonReply, limitHeaders } from "./answers.ts";
import { recordsOf } from "../confirm/confirm.ts";
import { folderOf, planKey, uploadPrefix } from "../store/layout.ts";
import type { FilePlan } from "../store/records.ts";
import type { PresentedSlot } from "../slots/slot-token.ts";
import { readJson } from "../store/small-object.ts";
import { stateOf, type UploadState } from "../store/upload-state.ts";
import { listAll } from "../slots/upload-storage.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

/** A file that was begun and is not whole. */
interface UnfinishedFile {
  readonly fileId: string;
  readonly name?: string;
  /** Bytes of the whole, where they are known. */
  readonly size?: number;
  /** Bytes that are there. */
  readonly received: number;
  /** Of the first bytes that are there, at most 64 KiB: tells whether another file is the same one. */
  readonly beginning?: { readonly bytes: number; readonly sha256: string };
}

const beginningBytes = 64 * 1024;

/**
 * How far the upload is, for a client that watches it. A slot of a page also names its files by id and lists what was
 * begun, so that a page that was loaded again goes on with them.
 */
export async function overviewReply(
  parts: UploadsParts,
  slot: PresentedSlot,
  signal: AbortSignal,
): Promise<Reply> {
  for (let attempt = 1; ; attempt++)
    try {
      return await lookAt(parts, slot, signal);
    } catch (error) {
      // a file that became whole, or was removed, between the listing and the look at it
      const isGone = SluiceError.is(error) && error.code === "not_found";
      if (!isGone || attempt === attempts) throw error;
    }
}

const attempts = 4;

async function lookAt(
  parts: UploadsParts,
  slot: PresentedSlot,
  signal: AbortSignal,
): Promise<Reply> {
  const { storage, board } = parts;
  const { uploadId } = slot;
  const isOfPage = slot.auth === "self";
  const state = stateOf(await listAll(storage, uploadPrefix(uploadId), signal));
  const isOver = state.phase === "confirmed";
  const places = isOver ? [] : state.places;
  const records = await recordsOf(parts, { ...state, folder: folderOf(slot), places }, signal);
  const files = records.map(({ fileId, name, size, mimeType, sha256 }) => ({
    ...(isOfPage && { fileId }),
    ...(name !== undefined && { name }),
    size,
    mimeType,
    sha256,
  }));
  const whole = new Set(records.map(({ fileId }) => fileId));
  const unfinished = isOfPage && !isOver ? await unfinishedOf(parts, slot, state, signal) : [];
  return jsonReply(
    200,
    {
      uploadId,
      status: isOver && state.places.length === 0 ? "closed" : state.phase,
      ...board.of(uploadId),
      files,
      ...(isOfPage && { unfinished: unfinished.filter(({ fileId }) => !whole.has(fileId)) }),
    },
    limitHeaders(slot),
  );
}

async function unfinishedOf(
  { storage }: UploadsParts,
  slot: PresentedSlot,
  { unfinished }: UploadState,
  signal: AbortSignal,
): Promise<UnfinishedFile[]> {
  const files: UnfinishedFile[] = [];
  for (const [fileId, { offset, parts }] of unfinished) {
    const { name, length } = await readJson<FilePlan>(
      storage,
      planKey(folderOf(slot), fileId),
      signal,
    );
    const [first] = parts;
    files.push({
      fileId,
      ...(name !== undefined && { name }),
      ...(length !== undefined && { size: length }),
      received: offset,
      ...(first !== undefined && { beginning: await beginningOf(storage, first, signal) }),
    });
  }
  return files;
}

async function beginningOf(
  storage: UploadsParts["storage"],
  key: string,
  signal: AbortSignal,
): Promise<{ bytes: number; sha256: string }> {
  const { body } = await storage.open(key, {
    range: { start: 0, end: beginningBytes },
    signal,
  });
  const bytes = new Uint8Array(await new Response(body).arrayBuffer());
  const hash = createSha256();
  hash.update(bytes);
  return { bytes: bytes.length, sha256: hash.digest() };
}
