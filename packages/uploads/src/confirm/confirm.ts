import { parseMediaType, sanitizeFileName, SluiceError, type Principal } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { recordDiscard } from "./record-step.ts";
import { bytesKey, markerKey, readObject, recordKey, uploadPrefix } from "../store/layout.ts";
import { isId } from "../slots/random-id.ts";
import type { Confirmation, ConfirmedFile, FileRecord } from "../store/records.ts";
import { scanFile } from "../store/scan.ts";
import { ownerOf } from "../slots/slot-token.ts";
import type { ClaimedFile, ConfirmOptions, UploadedFile } from "../slots/slots.ts";
import { createJson, readJson } from "../store/small-object.ts";
import { endOf, stateOf, type UploadState } from "../store/upload-state.ts";
import { listAll } from "../slots/upload-storage.ts";
import { confirmMs, type UploadsParts } from "../slots/uploads-parts.ts";
import { uploadError } from "../slots/upload-error.ts";

type Found = UploadState & { readonly folder: string };
type Unnamed = Pick<ConfirmOptions, "unnamed">;
type Placed = FileRecord & { readonly place: number };

/** Makes the files of an upload the server's, see {@link Slots.confirm}. */
export async function confirmUpload(
  parts: UploadsParts,
  principal: Principal | undefined,
  uploadId: string,
  { claims, unnamed }: { readonly claims: readonly ClaimedFile[] } & Required<Unnamed>,
  signal: AbortSignal,
): Promise<readonly UploadedFile[]> {
  const state = await findUpload(parts, principal, uploadId, signal);
  if (state.phase === "confirmed") throw again();
  ensureInTime(state);
  const records = await recordsOf(parts, state, signal);
  const { matched, left } = matchClaims(records, claims) ?? {
    matched: undefined,
    left: records,
  };
  if (!matched || (left.length > 0 && unnamed === "refuse")) {
    await discardUpload(parts, uploadId, signal);
    throw uploadError(
      "precondition_failed",
      "the answer does not name the files that came, each with its name, size, type and digest",
    );
  }
  const files: ConfirmedFile[] = [];
  for (const { record, claim } of matched) {
    const scan =
      record.scan === "deferred"
        ? await scanAgain(parts, state, uploadId, record, signal)
        : record.scan;
    const { fileId, size, mimeType, sha256, place } = record;
    files.push({ fileId, place, name: record.name ?? nameOf(claim), size, mimeType, sha256, scan });
  }
  // looking into files takes time
  ensureInTime(state);
  // before the marker, so that a crash in between leaves nothing beside what it names
  for (const { fileId, place } of left) await removeRecord(parts, state, { fileId, place }, signal);
  const confirmation = { files } satisfies Confirmation;
  if (!(await createJson(parts.storage, markerKey(state.folder), confirmation, signal)))
    throw again();
  // what became whole since the files were compared; whatever does so from now on sees the marker
  await removeUnnamed(parts, uploadId, confirmation).catch(parts.host.onError);
  return files.map((file) => toUploadedFile(parts, uploadId, state, file));
}

/** What came whole, see {@link Slots.received}. */
export async function receivedFiles(
  parts: UploadsParts,
  principal: Principal | undefined,
  uploadId: string,
  signal: AbortSignal,
): Promise<readonly ClaimedFile[]> {
  const state = await findUpload(parts, principal, uploadId, signal);
  const records = await recordsOf(parts, state, signal);
  if (records.length === 0) throw unknown();
  return records.map(({ name, size, mimeType, sha256 }) => ({
    name: name ?? sanitizeFileName(),
    size,
    mimeType,
    sha256,
  }));
}

/** Confirmed files, see {@link Slots.reopen}. */
export async function reopenUpload(
  parts: UploadsParts,
  principal: Principal | undefined,
  uploadId: string,
  signal: AbortSignal,
): Promise<readonly UploadedFile[]> {
  const state = await findUpload(parts, principal, uploadId, signal);
  if (state.phase !== "confirmed") throw unknown();
  const { files } = await readJson<Confirmation>(parts.storage, markerKey(state.folder), signal);
  const kept = files.filter(({ place }) => state.places.includes(place));
  if (kept.length === 0) throw unknown();
  return kept.map((file) => toUploadedFile(parts, uploadId, state, file));
}

/**
 * Removes what came for a slot, the marker last: until then nobody can take its place. With `isWorthless` only
 * when that still holds: something may have come since it was asked first.
 */
export async function discardUpload(
  parts: UploadsParts,
  uploadId: string,
  signal: AbortSignal,
  isWorthless: (state: UploadState) => boolean = () => true,
): Promise<void> {
  if (!isId(uploadId)) return;
  const { storage, board, host } = parts;
  const infos = await listAll(storage, uploadPrefix(uploadId), signal);
  const state = stateOf(infos);
  const { owner } = state;
  if (!isWorthless(state)) return;
  board.forget(uploadId);
  if (owner === undefined) return;
  await recordDiscard(host, { uploadId, owner }, async () => {
    const byMarker = infos.toSorted((a, b) => Number(isMarker(a.key)) - Number(isMarker(b.key)));
    await removeObjects(parts, byMarker, signal);
  });
}

/** Removes objects of an upload in their order, and the files among them from what their owner keeps. */
export async function removeObjects(
  { storage, ledger }: UploadsParts,
  infos: readonly ObjectInfo[],
  signal: AbortSignal,
): Promise<void> {
  for (const info of infos) {
    await storage.remove(info.key, { signal });
    const object = readObject(info);
    if (object && "fileId" in object) await ledger.drop(object.owner, object.fileId);
  }
}

function isMarker(key: string): boolean {
  return key.endsWith("/confirmed");
}

/** An upload of this principal; others do not learn that there is one. */
async function findUpload(
  { storage }: UploadsParts,
  principal: Principal | undefined,
  uploadId: string,
  signal: AbortSignal,
): Promise<Found> {
  if (!isId(uploadId)) throw unknown();
  const state = stateOf(await listAll(storage, uploadPrefix(uploadId), signal));
  const { owner, folder } = state;
  if (folder === undefined || owner !== ownerOf(principal)) throw unknown();
  return { ...state, folder };
}

/** The whole files of an upload, each once. */
export async function recordsOf(
  { storage }: Pick<UploadsParts, "storage">,
  { folder, places }: Found,
  signal: AbortSignal,
): Promise<Placed[]> {
  const records = new Map<string, Placed>();
  for (const place of places) {
    const record = await readJson<FileRecord>(storage, recordKey(folder, place), signal);
    // two processes may have put the parts of one file together
    if (!records.has(record.fileId)) records.set(record.fileId, { ...record, place });
  }
  return [...records.values()];
}

/** Each claim with the file it names, and the files that none names; `undefined` when a claim names no file. */
export function matchClaims<File extends Omit<FileRecord, "fileId" | "scan">>(
  files: readonly File[],
  claims: readonly ClaimedFile[],
): Matches<File> | undefined {
  const left = [...files];
  const matched: { record: File; claim: ClaimedFile }[] = [];
  for (const claim of claims) {
    const at = left.findIndex((file) => agrees(file, claim));
    if (at < 0) return undefined;
    matched.push({ record: left.splice(at, 1)[0]!, claim });
  }
  return matched.length > 0 ? { matched, left } : undefined;
}

interface Matches<File> {
  readonly matched: readonly { readonly record: File; readonly claim: ClaimedFile }[];
  readonly left: readonly File[];
}

async function removeRecord(
  { storage, ledger }: UploadsParts,
  { folder, owner = "" }: Found,
  { fileId, place }: Pick<Placed, "fileId" | "place">,
  signal: AbortSignal,
): Promise<void> {
  await storage.remove(recordKey(folder, place), { signal });
  await storage.remove(bytesKey(folder, fileId), { signal });
  await ledger.drop(owner, fileId);
}

/** Removes whole files that a confirmation does not name: no sweep would. */
async function removeUnnamed(
  parts: UploadsParts,
  uploadId: string,
  { files }: Confirmation,
): Promise<void> {
  const { storage } = parts;
  const signal = AbortSignal.any([parts.closing]);
  const state = stateOf(await listAll(storage, uploadPrefix(uploadId), signal));
  const { folder } = state;
  if (folder === undefined) return;
  const named = new Set(files.map(({ place }) => place));
  const fileIds = new Set(files.map(({ fileId }) => fileId));
  for (const place of state.places.filter((taken) => !named.has(taken))) {
    const key = recordKey(folder, place);
    const { fileId } = await readJson<FileRecord>(storage, key, signal);
    if (fileIds.has(fileId)) await storage.remove(key);
    else await removeRecord(parts, { ...state, folder }, { fileId, place }, signal);
  }
}

function agrees(file: Omit<FileRecord, "fileId" | "scan">, claim: ClaimedFile): boolean {
  const { essence } = parseMediaType(claim.mimeType) ?? {};
  const types = [file.mimeType, parseMediaType(file.declaredType)?.essence];
  return (
    (file.name === undefined || file.name === nameOf(claim)) &&
    file.size === claim.size &&
    (types.includes(essence) || essence === "application/octet-stream") &&
    (claim.sha256 === undefined || claim.sha256.toLowerCase() === file.sha256)
  );
}

function nameOf({ name }: ClaimedFile): string {
  return sanitizeFileName(name);
}

async function scanAgain(
  parts: UploadsParts,
  { folder }: Found,
  uploadId: string,
  record: FileRecord,
  signal: AbortSignal,
): Promise<UploadedFile["scan"]> {
  const key = bytesKey(folder, record.fileId);
  const verdict = await scanFile(parts, uploadId, key, record, signal);
  if (verdict === "clean" || verdict === "unscanned") return verdict;
  if (verdict === "defer")
    throw uploadError("unavailable", "the file is still being looked into", {
      retryAfterMs: 5_000,
    });
  await discardUpload(parts, uploadId, signal);
  throw uploadError("permission_denied", "the file was found to be harmful");
}

function toUploadedFile(
  parts: UploadsParts,
  uploadId: string,
  { folder, owner = "" }: Found,
  file: ConfirmedFile,
): UploadedFile {
  const { fileId, place, ...facts } = file;
  const { storage, ledger } = parts;
  return {
    uploadId,
    ...facts,
    open: (options = {}) => storage.open(bytesKey(folder, fileId), options),
    async remove() {
      await storage.remove(bytesKey(folder, fileId));
      await storage.remove(recordKey(folder, place));
      await ledger.drop(owner, fileId);
    },
  };
}

function ensureInTime(state: Found): void {
  if (Date.now() >= endOf(state) + confirmMs)
    throw uploadError("expired", "the time of this upload is over");
}

function unknown(): SluiceError {
  return uploadError("not_found", "there is no such upload");
}

function again(): SluiceError {
  return uploadError("already_exists", "this upload was confirmed or closed before");
}
