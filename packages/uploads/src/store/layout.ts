import type { ObjectInfo } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import type { CheckedFile } from "../checks/file-checks.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { isId, type UploadedFile } from "../slots/slots.ts";
import { findJson, readJson, type UploadStorage } from "./upload-storage.ts";

// The objects of an upload. Nothing that a client chooses is part of a key, and a listing alone says whose the upload
// is, when its slot ends and how far each file has come.

/** Below it lie all uploads of a storage, in this version of the layout: those of another one are left alone. */
export const uploadsPrefix = "uploads/1/";

/** Prefix of all objects of one upload. */
export function uploadPrefix(uploadId: string): string {
  return `${uploadsPrefix}${uploadId}/`;
}

/** Prefix of what a slot receives. */
export function folderOf({ uploadId, owner, expiresAt }: Omit<OpenSlot, "terms">): string {
  return `${uploadPrefix(uploadId)}${owner}.${expiresAt / 1_000}/`;
}

/** The bytes of a whole file. They count for nothing without a record. */
export function bytesKey(folder: string, fileId: string): string {
  return `${folder}bytes-${fileId}`;
}

/** What is known of the file in the given place of its slot: made once, and only when the file is whole. */
export function recordKey(folder: string, place: number): string {
  return `${folder}file-${String(place).padStart(3, "0")}`;
}

/** What was said of a file before its bytes came, in parts or in steps. */
export function planKey(folder: string, fileId: string): string {
  return `${folder}plan-${fileId}`;
}

/** One part, from `offset` on. */
export function partKey(folder: string, fileId: string, offset: number): string {
  return `${folder}part-${fileId}-${String(offset).padStart(16, "0")}`;
}

/**
 * Marks that storage has the first `offset` bytes of a file that it takes in steps. Its content is the bytes after them
 * that storage cannot take yet.
 */
export function stepKey(folder: string, fileId: string, offset: number): string {
  return `${folder}step-${fileId}-${String(offset).padStart(16, "0")}`;
}

/** Made once, by the process that confirms the upload. */
export function markerKey(folder: string): string {
  return `${folder}confirmed`;
}

/** One object of an upload. */
export type UploadObject = {
  readonly uploadId: string;
  readonly owner: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly folder: string;
  readonly info: ObjectInfo;
} & (
  | { readonly kind: "bytes" | "plan"; readonly fileId: string }
  | { readonly kind: "part" | "step"; readonly fileId: string; readonly offset: number }
  | { readonly kind: "file"; readonly place: number }
  | { readonly kind: "confirmed" }
);

const grammar =
  /^uploads\/1\/([^/]+)\/([0-9a-z]+)\.(\d{1,12})\/(?:(bytes|plan)-([^/]+)|(part|step)-([^/]+)-(\d{16})|file-(\d{3})|confirmed)$/;

/** What the key of a listed object says; `undefined` for a foreign key. */
export function parseObject(info: ObjectInfo): UploadObject | undefined {
  const match = grammar.exec(info.key);
  if (!match || !isId(match[1]!)) return undefined;
  const [, uploadId = "", owner = "", seconds, kind, fileId, ...rest] = match;
  const [progressKind, progressFileId, offset, place] = rest;
  const expiresAt = Number(seconds) * 1_000;
  const folder = folderOf({ uploadId, owner, expiresAt });
  const common = { uploadId, owner, expiresAt, info, folder };
  if (kind !== undefined && fileId !== undefined)
    return { ...common, kind: kind as "bytes" | "plan", fileId };
  if (progressFileId !== undefined) {
    const progress = { kind: progressKind as "part" | "step", offset: Number(offset) };
    return { ...common, ...progress, fileId: progressFileId };
  }
  if (place !== undefined) return { ...common, kind: "file", place: Number(place) };
  return { ...common, kind: "confirmed" };
}

/** What is known of a whole file, as storage keeps it. */
export interface FileRecord extends CheckedFile {
  readonly fileId: string;
  readonly scan: UploadedFile["scan"] | "deferred";
}

/** What was said of a file before its bytes came, in parts or in steps. */
export interface FilePlan {
  readonly name?: string;
  readonly declaredType?: string;
  /** Bytes of the whole file, if they were known. */
  readonly length?: number;
  /** Lower-case hex. */
  readonly sha256?: string;
  /** The id of its bytes in a storage that takes them in steps; absent if its parts are objects. */
  readonly steps?: string;
  /** The first bytes of a file with `steps`, once they came. */
  readonly beginning?: Beginning;
}

/** The first bytes of a file, at most 64 KiB: they tell whether another file is the same one. */
export interface Beginning {
  readonly bytes: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** Maximum bytes of a {@link Beginning}. */
export const beginningBytes: number = 64 * 1024;

/** What the marker of a confirmed upload says. */
export interface ConfirmationRecord {
  readonly files: readonly ConfirmedFile[];
}

/** A file that was confirmed. */
export type ConfirmedFile = Omit<FileRecord, "name" | "declaredType" | "scan"> &
  Pick<UploadedFile, "name" | "scan"> & { readonly place: number };

/** The record of a whole file, and its place in the slot. */
export type PlacedRecord = FileRecord & { readonly place: number };

/** Reads the records of the whole files of an upload, each once: two processes may have assembled the same file. */
export async function readRecords(
  storage: UploadStorage,
  { folder, places }: { readonly folder: string; readonly places: readonly number[] },
  signal: AbortSignal,
): Promise<PlacedRecord[]> {
  const records = new Map<string, PlacedRecord>();
  for (const place of places) {
    const record = await readJson<FileRecord>(storage, recordKey(folder, place), signal);
    if (!records.has(record.fileId)) records.set(record.fileId, { ...record, place });
  }
  return [...records.values()];
}

/** Removes one object of an upload. With a plan, also aborts the write that it names, which no listing shows. */
export async function removeObject(
  storage: UploadStorage,
  object: UploadObject,
  signal: AbortSignal,
): Promise<void> {
  if (object.kind === "plan") await abortSteps(storage, object, signal);
  await storage.remove(object.info.key, { signal });
}

async function abortSteps(
  storage: UploadStorage,
  { folder, fileId }: Pick<UploadObject & { kind: "plan" }, "folder" | "fileId">,
  signal: AbortSignal,
): Promise<void> {
  if (!storage.writeInSteps) return;
  const plan = await findJson<FilePlan>(storage, planKey(folder, fileId), signal);
  if (plan?.steps === undefined) return;
  const options = { id: plan.steps, signal };
  const writer = await unlessMissing(storage.writeInSteps(bytesKey(folder, fileId), options));
  await writer?.abort();
}
