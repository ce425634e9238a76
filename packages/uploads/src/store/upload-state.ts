import type { ObjectInfo, StorageBackend } from "@sluice/storage";
import { parseObject, uploadPrefix, type UploadObject } from "./layout.ts";
import { listAll } from "./upload-storage.ts";

/** How long after its end, see {@link endOf}, an unconfirmed upload is kept. */
export const graceMs: number = 5 * 60_000;

/** How long after its end an upload may be confirmed: less than `graceMs`, so that no sweep meets a confirmation. */
export const confirmMs: number = graceMs - 30_000;

interface Unfinished {
  /** Bytes from the beginning without a gap, as the listing shows them. */
  readonly offset: number;
  /** Keys of the parts that make them, in order; none if storage takes the file in steps. */
  readonly parts: readonly string[];
}

/** An upload as its objects show it. */
export interface UploadState {
  /**
   * - `reserved`: nothing has come
   * - `receiving`: something has, but no file is whole
   * - `stored`: files are whole and wait to be confirmed
   * - `confirmed`: its files are the server's; without files, the slot was revoked
   */
  readonly phase: "reserved" | "receiving" | "stored" | "confirmed";
  readonly owner?: string;
  /** When its slot ends, unix milliseconds. */
  readonly expiresAt?: number;
  /** When something of it came last, unix milliseconds, where storage knows. */
  readonly changedAt?: number;
  readonly folder?: string;
  /** Places of whole files. */
  readonly places: readonly number[];
  /** By file id. */
  readonly unfinished: ReadonlyMap<string, Unfinished>;
  readonly bytes: number;
}

/** Lists an upload, and says how far it is. */
export async function readState(
  storage: StorageBackend,
  uploadId: string,
  signal: AbortSignal,
): Promise<UploadState> {
  return stateOf(await listAll(storage, uploadPrefix(uploadId), signal));
}

/** Says from a listing of an upload how far it is. */
export function stateOf(infos: readonly ObjectInfo[]): UploadState {
  const objects = infos.map(parseObject).filter((object) => object !== undefined);
  const [first] = objects;
  if (!first) return { phase: "reserved", places: [], unfinished: new Map(), bytes: 0 };
  const { owner, expiresAt, folder } = first;
  // an upload has one slot; what lies beside its folder is not ours
  const ours = objects.filter((object) => object.folder === folder);
  const places = ours.flatMap((object) => (object.kind === "file" ? [object.place] : []));
  const changedAt = Math.max(...ours.map(({ info }) => info.lastModified?.getTime() ?? 0));
  const isConfirmed = ours.some(({ kind }) => kind === "confirmed");
  return {
    phase: isConfirmed ? "confirmed" : places.length > 0 ? "stored" : "receiving",
    owner,
    expiresAt,
    ...(changedAt > 0 && { changedAt }),
    folder,
    places: places.toSorted((a, b) => a - b),
    unfinished: unfinishedIn(ours),
    bytes: ours.reduce((sum, { info }) => sum + (info.size ?? 0), 0),
  };
}

/**
 * When it expires, unix milliseconds: with its slot, or with the last byte of a transfer that began before. Nothing
 * begins after the slot has ended.
 */
export function endOf({ expiresAt = 0, changedAt = 0 }: UploadState): number {
  return Math.max(expiresAt, changedAt);
}

function unfinishedIn(objects: readonly UploadObject[]): Map<string, Unfinished> {
  const files = new Map<string, Unfinished>();
  for (const object of objects)
    if (object.kind === "plan") files.set(object.fileId, { offset: 0, parts: [] });
  const parts = objects.flatMap((object) => (object.kind === "part" ? [object] : []));
  for (const { fileId, offset, info } of parts.toSorted((a, b) => a.offset - b.offset)) {
    const file = files.get(fileId);
    // what lies beyond a gap was never promised
    if (file?.offset !== offset) continue;
    files.set(fileId, { offset: offset + (info.size ?? 0), parts: [...file.parts, info.key] });
  }
  for (const object of objects) {
    const file = object.kind === "step" ? files.get(object.fileId) : undefined;
    if (object.kind === "step" && file)
      files.set(object.fileId, { ...file, offset: Math.max(file.offset, endOfStep(object)) });
  }
  return files;
}

/** Bytes of a file that storage takes in steps, as one object shows them. */
export function endOfStep({
  offset,
  info,
}: Pick<UploadObject & { kind: "step" }, "offset" | "info">): number {
  return offset + (info.size ?? 0);
}
