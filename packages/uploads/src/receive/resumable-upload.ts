import { SluiceError } from "@sluice/core";
import { createPartAppender } from "./append-parts.ts";
import { readArrival, type Arrival } from "./arrival.ts";
import { assembleFile, removeFile, removeParts } from "./assemble-file.ts";
import { createKindDetector, type KindDetector } from "../kind/detect-kind.ts";
import { folderOf, planKey, readObject, recordKey, uploadPrefix } from "../store/layout.ts";
import { newId } from "../slots/random-id.ts";
import { ensureSize } from "./raw-upload.ts";
import type { FilePlan, FileRecord } from "../store/records.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { RequestFacts } from "./request-facts.ts";
import type { OpenSlot, PresentedSlot } from "../slots/slot-token.ts";
import { createJson, readJson } from "../store/small-object.ts";
import { openState } from "../store/store-files.ts";
import type { Turn } from "./turns.ts";
import { stateOf } from "../store/upload-state.ts";
import { listAll } from "../slots/upload-storage.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

// Uploads in steps, as draft-ietf-httpbis-resumable-upload describes them.

/** How far a file is. */
export interface FileProgress {
  readonly fileId: string;
  readonly offset: number;
  /** Bytes of the whole, where they are known. */
  readonly length?: number;
  /** The whole file, once it is a file of the slot. */
  readonly record?: FileRecord;
}

/** Files of a slot that were begun and left, beside as many as it takes. */
const spareFiles = 4;

/**
 * Rejects with `not_found` when the slot has no file of that id. To be asked before the file's turn is taken, which
 * ends the request that has it: an id that is made up, or of another slot, costs one listing.
 */
export async function ensureFile(
  { storage }: UploadsParts,
  slot: OpenSlot,
  fileId: string,
  signal: AbortSignal,
): Promise<void> {
  const folder = folderOf(slot);
  const infos = await listAll(storage, uploadPrefix(slot.uploadId), signal);
  const isThere = infos
    .map(readObject)
    // the folder names the owner as well as the upload
    .some((object) => object?.folder === folder && "fileId" in object && object.fileId === fileId);
  if (!isThere) throw noFile();
}

/** Begins a file, with its first bytes or without any (§4.2). */
export async function createResumable(
  parts: UploadsParts,
  arrival: Arrival,
): Promise<FileProgress> {
  const { slot, facts, signal } = arrival;
  const { terms } = slot;
  const length = lengthOf(facts, 0);
  ensureSize(length ?? facts.contentLength, terms.maxBytes);
  const { unfinished, places } = await openState(parts, slot, signal);
  if (unfinished.size + places.length >= terms.maxFiles + spareFiles)
    throw uploadError("already_exists", "too many files were begun here");
  const fileId = newId();
  const { ledger } = parts;
  const bytes = length ?? terms.maxBytes;
  await ledger.hold(slot.owner, fileId, bytes);
  const plan = {
    ...(facts.name !== undefined && { name: facts.name }),
    ...(facts.contentType !== undefined && { declaredType: facts.contentType }),
    ...(length !== undefined && { length }),
    ...(facts.sha256 !== undefined && { sha256: facts.sha256 }),
  } satisfies FilePlan;
  try {
    await createJson(parts.storage, planKey(folderOf(slot), fileId), plan, signal);
  } catch (error) {
    await ledger.drop(slot.owner, fileId);
    throw error;
  }
  await ledger.settle(slot.owner, fileId, bytes);
  return appendTo(parts, arrival, { fileId, expected: 0 });
}

/** Goes on with a file (§4.4). */
export async function appendResumable(
  parts: UploadsParts,
  arrival: Arrival,
  fileId: string,
): Promise<FileProgress> {
  const { complete, offset } = arrival.facts;
  if (complete === undefined || offset === undefined)
    throw uploadError("invalid_argument", "a step says Upload-Offset and Upload-Complete");
  return appendTo(parts, arrival, { fileId, expected: offset });
}

/** Says how far a file is (§4.3). Whatever goes on with it ends first. */
export async function inspectResumable(
  parts: UploadsParts,
  slot: OpenSlot,
  fileId: string,
  signal: AbortSignal,
): Promise<FileProgress> {
  const turn = await parts.turns.take(fileId, signal);
  try {
    const progress = await progressOf(parts, slot, fileId, signal);
    // a process that stopped between the file and its parts left them behind
    if (progress.record) await removeParts(parts, slot, fileId, signal).catch(parts.host.onError);
    return progress;
  } finally {
    await turn.end();
  }
}

/** Gives a file up (§4.5): what came of it is removed, also when it is whole but not confirmed. */
export async function cancelResumable(
  parts: UploadsParts,
  slot: PresentedSlot,
  fileId: string,
  signal: AbortSignal,
): Promise<void> {
  const turn = await parts.turns.take(fileId, signal);
  try {
    const state = stateOf(await listAll(parts.storage, uploadPrefix(slot.uploadId), signal));
    if (state.phase === "confirmed")
      throw uploadError("already_exists", "this upload was confirmed or closed before");
    // the tool is about to take it
    if (slot.auth === "self" && (await parts.pages.isAnswered(slot.uploadId)))
      throw uploadError("already_exists", "an answer names this file already");
    await progressOf(parts, slot, fileId, signal);
    await removeFile(parts, slot, fileId, signal);
    parts.board.drop(slot.uploadId, fileId);
  } finally {
    await turn.end();
  }
}

async function appendTo(
  parts: UploadsParts,
  arrival: Arrival,
  { fileId, expected }: { readonly fileId: string; readonly expected: number },
): Promise<FileProgress> {
  const { slot, facts } = arrival;
  const turn = await parts.turns.take(fileId, arrival.signal);
  const signal = AbortSignal.any([arrival.signal, turn.signal]);
  let held: number | undefined;
  try {
    const before = await progressOf(parts, slot, fileId, signal);
    if (before.record) throw uploadError("already_exists", "this file is complete");
    if (before.offset !== expected)
      throw uploadError(
        "precondition_failed",
        `the file goes on at byte ${before.offset}, not at ${expected}`,
        { size: before.offset },
      );
    const length = lengthOf(facts, before.offset, before.length);
    const most = length ?? slot.terms.maxBytes;
    // another process may have begun it, or this one before it was started again
    await parts.ledger.hold(slot.owner, fileId, most);
    held = most;
    const offset = await receiveStep(parts, { ...arrival, signal }, { ...before, length, turn });
    if (!facts.complete) return { fileId, offset, ...(length !== undefined && { length }) };
    if (length !== undefined && offset !== length) throw inconsistent();
    const record = await assembleFile(parts, slot, { fileId, turn }, signal);
    held = undefined;
    return { fileId, offset: record.size, length: record.size, record };
  } catch (error) {
    // a newer request has it otherwise, and judges for itself
    if (error instanceof RefusedFile && !turn.signal.aborted) {
      parts.board.drop(slot.uploadId, fileId);
      try {
        await removeFile(parts, slot, fileId, AbortSignal.any([parts.closing]));
        held = undefined;
      } catch (failure) {
        parts.host.onError(failure);
      }
    }
    throw error;
  } finally {
    // from the next sweep on it counts as what storage shows of it
    if (held !== undefined) await parts.ledger.settle(slot.owner, fileId, held);
    await turn.end();
  }
}

/** Reads a body into parts; what came before it broke is kept. */
async function receiveStep(
  parts: UploadsParts,
  arrival: Arrival,
  before: Pick<FileProgress, "fileId" | "offset"> & {
    readonly length: number | undefined;
    readonly turn: Turn;
  },
): Promise<number> {
  const { slot } = arrival;
  const { fileId, offset, turn } = before;
  const { uploadId, terms } = slot;
  const most = before.length ?? terms.maxBytes;
  ensureSize(offset + (arrival.facts.contentLength ?? 0), most);
  const appender = createPartAppender(parts.storage, {
    folder: folderOf(slot),
    fileId,
    offset,
    ensureOurs: () => turn.ensureOurs(),
  });
  const detector = offset === 0 ? await openDetector(parts, arrival, fileId) : undefined;
  parts.board.begin(slot, fileId, { received: offset, total: before.length });
  const signal = AbortSignal.any([arrival.signal, parts.leaving]);
  try {
    await readArrival(parts, { ...arrival, signal }, (chunk) => {
      if (appender.offset + chunk.byteLength > most)
        throw new RefusedFile("too_large", `more than ${most} bytes came`);
      parts.board.add(uploadId, fileId, chunk.byteLength);
      arrival.onBytes(chunk.byteLength);
      const wait = appender.write(chunk);
      return detector?.add(chunk)?.then(() => wait) ?? wait;
    });
  } catch (error) {
    await appender.end().catch(parts.host.onError);
    throw error;
  }
  return appender.end();
}

/** Looks at the beginning already as it comes, so that nobody sends gigabytes of the wrong kind. */
async function openDetector(
  { storage }: UploadsParts,
  { slot, signal }: Arrival,
  fileId: string,
): Promise<KindDetector> {
  const plan = await readJson<FilePlan>(storage, planKey(folderOf(slot), fileId), signal);
  return createKindDetector(plan, slot.terms.accept);
}

async function progressOf(
  { storage }: UploadsParts,
  slot: OpenSlot,
  fileId: string,
  signal: AbortSignal,
): Promise<FileProgress> {
  const folder = folderOf(slot);
  const state = stateOf(await listAll(storage, uploadPrefix(slot.uploadId), signal));
  const begun = state.unfinished.get(fileId);
  const record =
    begun && state.places.length === 0
      ? undefined
      : await recordOf(storage, folder, state.places, fileId, signal);
  if (record) return { fileId, offset: record.size, length: record.size, record };
  if (!begun) throw noFile();
  const { length } = await readJson<FilePlan>(storage, planKey(folder, fileId), signal);
  return { fileId, offset: begun.offset, ...(length !== undefined && { length }) };
}

async function recordOf(
  storage: UploadsParts["storage"],
  folder: string,
  places: readonly number[],
  fileId: string,
  signal: AbortSignal,
): Promise<FileRecord | undefined> {
  for (const place of places) {
    const record = await readJson<FileRecord>(storage, recordKey(folder, place), signal);
    if (record.fileId === fileId) return record;
  }
  return undefined;
}

/** The length that a request says or implies (§4.1.3); throws when it says two, or another than before. */
function lengthOf(facts: RequestFacts, offset: number, before?: number): number | undefined {
  const implied =
    facts.complete && facts.contentLength !== undefined ? offset + facts.contentLength : undefined;
  const said = [implied, facts.length, before].filter((length) => length !== undefined);
  if (said.some((length) => length !== said[0])) throw inconsistent();
  return said[0];
}

function noFile(): SluiceError {
  return uploadError("not_found", "there is no such file");
}

function inconsistent(): SluiceError {
  return uploadError("invalid_argument", "the lengths that were said do not agree");
}
