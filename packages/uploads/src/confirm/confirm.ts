import type { Principal } from "@sluice/core";
import { pullStream, sanitizeFileName } from "@sluice/core/internal";
import type { UploadStore } from "@sluice/state";
import type { OpenedObject } from "@sluice/storage";
import { withBody } from "@sluice/storage/plugin";
import { sharedNow } from "../limits/lease.ts";
import type { QuotaTracker } from "../limits/quota-tracker.ts";
import type { ShutdownStage } from "../slots/open-requests.ts";
import { ownerOf } from "../slots/slot-token.ts";
import { type ClaimedFile, type ConfirmOptions, isId, type UploadedFile } from "../slots/slots.ts";
import { errorForTool, uploadError } from "../slots/upload-error.ts";
import {
  bytesKey,
  type ConfirmationRecord,
  type ConfirmedFile,
  type FileRecord,
  markerKey,
  readRecords,
  recordKey,
} from "../store/layout.ts";
import { type Scan, scanFile } from "../store/scan.ts";
import { confirmMs, endOf, readState, type UploadState } from "../store/upload-state.ts";
import { createJson, readJson, type UploadStorage } from "../store/upload-storage.ts";
import { matchClaims, nameOf } from "./match-claims.ts";
import type { UploadRemover } from "./remove-upload.ts";

type FoundUpload = UploadState & {
  readonly uploadId: string;
  readonly owner: string;
  readonly folder: string;
};

interface ConfirmationParts {
  readonly storage: UploadStorage;
  readonly store: UploadStore;
  readonly quota: QuotaTracker;
  readonly scan: Scan | undefined;
  readonly remover: Pick<UploadRemover, "discard">;
  readonly closing: ShutdownStage;
  /** Receives errors of tidying up. */
  readonly onError: (error: unknown) => void;
}

/** Confirms files, which makes them the server's, and finds confirmed ones again. */
export class Confirmation {
  readonly #parts: ConfirmationParts;

  constructor(parts: ConfirmationParts) {
    this.#parts = parts;
  }

  /** See {@link Slots.confirm}. */
  async confirm(
    principal: Principal | undefined,
    uploadId: string,
    {
      claims,
      unnamed = "refuse",
    }: { readonly claims: readonly ClaimedFile[] } & Pick<ConfirmOptions, "unnamed">,
    signal: AbortSignal,
  ): Promise<readonly UploadedFile[]> {
    const { storage, remover, closing, onError } = this.#parts;
    const upload = await this.#find(principal, uploadId, signal);
    if (upload.phase === "confirmed") throw confirmedBefore();
    await this.#ensureInTime(upload);
    const records = await readRecords(storage, upload, signal);
    const matches = matchClaims(records, claims);
    if (!matches || (matches.unmatched.length > 0 && unnamed === "refuse")) {
      await remover.discard(uploadId, signal);
      throw uploadError(
        "precondition_failed",
        "the answer does not name the files that came, each with its name, size, type and digest",
      );
    }
    const files: ConfirmedFile[] = [];
    for (const { record, claim } of matches.matched) {
      const scan =
        record.scan === "deferred" ? await this.#scanAgain(upload, record, signal) : record.scan;
      const { fileId, size, mimeType, sha256, place } = record;
      const name = record.name ?? nameOf(claim);
      files.push({ fileId, place, name, size, mimeType, sha256, scan });
    }
    // again, because scanning takes time
    await this.#ensureInTime(upload);
    // removed before the marker is written: a crash in between leaves no file that the marker does not name
    for (const record of matches.unmatched) await this.#removeRecord(upload, record, signal);
    const confirmation = { files } satisfies ConfirmationRecord;
    if (!(await createJson(storage, markerKey(upload.folder), confirmation, signal)))
      throw confirmedBefore();
    // removes files that became whole after the comparison; later ones see the marker and are refused
    await closing
      .runUntil(undefined, (ending) => this.#removeUnnamed(upload, confirmation, ending))
      .catch(onError);
    return files.map((file) => this.#fileOf(upload, file));
  }

  /** See {@link Slots.received}. */
  async received(
    principal: Principal | undefined,
    uploadId: string,
    signal: AbortSignal,
  ): Promise<readonly ClaimedFile[]> {
    const upload = await this.#find(principal, uploadId, signal);
    const records = await readRecords(this.#parts.storage, upload, signal);
    if (records.length === 0) throw noSuchUpload();
    return records.map(({ name, size, mimeType, sha256 }) => ({
      name: name ?? sanitizeFileName(),
      size,
      mimeType,
      sha256,
    }));
  }

  /** See {@link Slots.reopen}. */
  async reopen(
    principal: Principal | undefined,
    uploadId: string,
    signal: AbortSignal,
  ): Promise<readonly UploadedFile[]> {
    const upload = await this.#find(principal, uploadId, signal);
    if (upload.phase !== "confirmed") throw noSuchUpload();
    const marker = markerKey(upload.folder);
    const { files } = await readJson<ConfirmationRecord>(this.#parts.storage, marker, signal);
    const keptFiles = files.filter(({ place }) => upload.places.includes(place));
    if (keptFiles.length === 0) throw noSuchUpload();
    return keptFiles.map((file) => this.#fileOf(upload, file));
  }

  /** Finds an upload of this principal; others do not learn that there is one. */
  async #find(
    principal: Principal | undefined,
    uploadId: string,
    signal: AbortSignal,
  ): Promise<FoundUpload> {
    if (!isId(uploadId)) throw noSuchUpload();
    const state = await readState(this.#parts.storage, uploadId, signal);
    const { owner, folder } = state;
    if (folder === undefined || owner !== ownerOf(principal)) throw noSuchUpload();
    return { ...state, uploadId, owner, folder };
  }

  /** Throws `expired` for a late confirmation: by the sweeper's clock, or that of this process while the store is down. */
  async #ensureInTime(state: UploadState): Promise<void> {
    const now = await sharedNow(this.#parts.store).catch(() => Date.now());
    if (now >= endOf(state) + confirmMs) throw uploadError("expired", "this upload has expired");
  }

  async #removeRecord(
    { folder, owner }: Pick<FoundUpload, "folder" | "owner">,
    { fileId, place }: { readonly fileId: string; readonly place: number },
    signal: AbortSignal,
  ): Promise<void> {
    const { storage, quota } = this.#parts;
    await storage.remove(recordKey(folder, place), { signal });
    await storage.remove(bytesKey(folder, fileId), { signal });
    await quota.drop(owner, fileId);
  }

  /** Removes whole files that a confirmation does not name: no sweep would. */
  async #removeUnnamed(
    { uploadId, folder, owner }: FoundUpload,
    { files }: ConfirmationRecord,
    signal: AbortSignal,
  ): Promise<void> {
    const { storage } = this.#parts;
    const { places } = await readState(storage, uploadId, signal);
    const namedPlaces = new Set(files.map(({ place }) => place));
    const fileIds = new Set(files.map(({ fileId }) => fileId));
    for (const place of places.filter((taken) => !namedPlaces.has(taken))) {
      const key = recordKey(folder, place);
      const { fileId } = await readJson<FileRecord>(storage, key, signal);
      if (fileIds.has(fileId)) await storage.remove(key);
      else await this.#removeRecord({ folder, owner }, { fileId, place }, signal);
    }
  }

  async #scanAgain(
    { folder, uploadId }: FoundUpload,
    record: FileRecord,
    signal: AbortSignal,
  ): Promise<UploadedFile["scan"]> {
    const key = bytesKey(folder, record.fileId);
    const verdict = await scanFile(this.#parts, { ...record, uploadId, key }, signal);
    if (verdict === "clean" || verdict === "unscanned") return verdict;
    if (verdict === "defer")
      throw uploadError("unavailable", "the file is still being looked into", {
        retryAfterMs: 5_000,
      });
    await this.#parts.remover.discard(uploadId, signal);
    throw uploadError("permission_denied", "the file was found to be harmful");
  }

  #fileOf(
    { uploadId, folder, owner }: FoundUpload,
    { fileId, place, ...facts }: ConfirmedFile,
  ): UploadedFile {
    const { storage, quota, onError } = this.#parts;
    /** Errors of a file in a tool have words for the caller of the tool, because the SDK sends them to it. */
    const toTool = (error: unknown): unknown => errorForTool(error, onError);
    const open: UploadedFile["open"] = (options = {}) =>
      storage.open(bytesKey(folder, fileId), options).then(
        (opened) => withErrors(opened, toTool),
        (error: unknown) => {
          throw toTool(error);
        },
      );
    const bytes: UploadedFile["bytes"] = async (options) => readWhole(await open(options), facts);
    return {
      uploadId,
      ...facts,
      open,
      bytes,
      text: async (options) => decodeText(await bytes(options)),
      async remove() {
        try {
          await storage.remove(bytesKey(folder, fileId));
          await storage.remove(recordKey(folder, place));
        } catch (error) {
          throw toTool(error);
        }
        await quota.drop(owner, fileId);
      },
    };
  }
}

function noSuchUpload() {
  return uploadError("not_found", "there is no such upload");
}

function confirmedBefore() {
  return uploadError("already_exists", "this upload was confirmed or closed before");
}

/** An opened object whose body fails with other errors. Nothing is read ahead; `file` and `bytes` stay. */
function withErrors(opened: OpenedObject, errorFor: (error: unknown) => unknown): OpenedObject {
  const { info, range, file, bytes } = opened;
  return withBody({ info, range, file, bytes }, () => {
    const reader = opened.body.getReader();
    const next = (): Promise<Uint8Array | undefined> =>
      reader.read().then(
        ({ value }) => value,
        (error: unknown) => {
          throw errorFor(error);
        },
      );
    return pullStream(next, (reason) => reader.cancel(reason).catch(() => {}));
  });
}

/** All bytes of an opened file, in memory. Rejects with `corrupt` when storage has more or fewer than `size`. */
async function readWhole(
  { body, file }: OpenedObject,
  { size }: { readonly size: number },
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  let at = 0;
  try {
    for await (const chunk of body) {
      if (at + chunk.length > size) throw otherSize();
      bytes.set(chunk, at);
      at += chunk.length;
    }
  } finally {
    await file?.close();
  }
  if (at < size) throw otherSize();
  return bytes;
}

function otherSize() {
  return uploadError("corrupt", "the file in storage has another size than the one that came");
}

/** Text in UTF-8, or in UTF-16 with a byte order mark, which is left out. */
function decodeText(bytes: Uint8Array): string {
  return new TextDecoder(encodingOf(bytes)).decode(bytes);
}

function encodingOf([first, second]: Uint8Array): string {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}
