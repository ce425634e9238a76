import { definedMembers, sanitizeFileName, type Principal } from "@sluice/core";
import type { UploadStore } from "@sluice/state";
import type { OpenedObject } from "@sluice/storage";
import type { QuotaTracker } from "../quota/quota-tracker.ts";
import type { Ending } from "../slots/open-requests.ts";
import { isId } from "../slots/random-id.ts";
import { ownerOf } from "../slots/slot-token.ts";
import type { ClaimedFile, ConfirmOptions, UploadedFile } from "../slots/slots.ts";
import { errorForTool, uploadError } from "../slots/upload-error.ts";
import {
  bytesKey,
  markerKey,
  readRecords,
  recordKey,
  type ConfirmationRecord,
  type ConfirmedFile,
  type FileRecord,
} from "../store/layout.ts";
import type { ScanFile } from "../store/scan.ts";
import { sharedNow } from "../store/leases.ts";
import { confirmMs, endOf, readState, type UploadState } from "../store/upload-state.ts";
import { createJson, readJson, type UploadStorage } from "../store/upload-storage.ts";
import { matchClaims, nameOf } from "./match-claims.ts";
import type { UploadRemover } from "./remove-upload.ts";

type FoundUpload = UploadState & {
  readonly uploadId: string;
  readonly owner: string;
  readonly folder: string;
};

/** Makes files the server's, and finds them again. */
export interface Confirmation {
  /** See {@link Slots.confirm}. */
  confirm(
    principal: Principal | undefined,
    uploadId: string,
    answer: { readonly claims: readonly ClaimedFile[] } & Pick<ConfirmOptions, "unnamed">,
    signal: AbortSignal,
  ): Promise<readonly UploadedFile[]>;
  /** See {@link Slots.received}. */
  received(
    principal: Principal | undefined,
    uploadId: string,
    signal: AbortSignal,
  ): Promise<readonly ClaimedFile[]>;
  /** See {@link Slots.reopen}. */
  reopen(
    principal: Principal | undefined,
    uploadId: string,
    signal: AbortSignal,
  ): Promise<readonly UploadedFile[]>;
}

/** Makes the confirmation of one storage. What it cannot tidy up goes to `onError`. */
export function createConfirmation({
  storage,
  store,
  quota,
  scanFile,
  remover,
  closing,
  onError,
}: {
  readonly storage: UploadStorage;
  readonly store: UploadStore;
  readonly quota: QuotaTracker;
  readonly scanFile: ScanFile;
  readonly remover: Pick<UploadRemover, "discard">;
  /** Aborts when the endpoint is closed. */
  readonly closing: Ending;
  readonly onError: (error: unknown) => void;
}): Confirmation {
  /** Finds an upload of this principal; others do not learn that there is one. */
  async function find(
    principal: Principal | undefined,
    uploadId: string,
    signal: AbortSignal,
  ): Promise<FoundUpload> {
    if (!isId(uploadId)) throw noSuchUpload();
    const state = await readState(storage, uploadId, signal);
    const { owner, folder } = state;
    if (folder === undefined || owner !== ownerOf(principal)) throw noSuchUpload();
    return { ...state, uploadId, owner, folder };
  }

  /** By the clock that the sweeper goes by; while the store is down, by that of this process. */
  async function ensureInTime(state: UploadState): Promise<void> {
    const now = await sharedNow(store).catch(() => Date.now());
    if (now >= endOf(state) + confirmMs)
      throw uploadError("expired", "the time of this upload is over");
  }

  async function removeRecord(
    { folder, owner }: Pick<FoundUpload, "folder" | "owner">,
    { fileId, place }: { readonly fileId: string; readonly place: number },
    signal: AbortSignal,
  ): Promise<void> {
    await storage.remove(recordKey(folder, place), { signal });
    await storage.remove(bytesKey(folder, fileId), { signal });
    await quota.drop(owner, fileId);
  }

  /** Removes whole files that a confirmation does not name: no sweep would. */
  async function removeUnnamed(
    { uploadId, folder, owner }: FoundUpload,
    { files }: ConfirmationRecord,
    signal: AbortSignal,
  ): Promise<void> {
    const { places } = await readState(storage, uploadId, signal);
    const named = new Set(files.map(({ place }) => place));
    const fileIds = new Set(files.map(({ fileId }) => fileId));
    for (const place of places.filter((taken) => !named.has(taken))) {
      const key = recordKey(folder, place);
      const { fileId } = await readJson<FileRecord>(storage, key, signal);
      if (fileIds.has(fileId)) await storage.remove(key);
      else await removeRecord({ folder, owner }, { fileId, place }, signal);
    }
  }

  async function scanAgain(
    { folder, uploadId }: FoundUpload,
    record: FileRecord,
    signal: AbortSignal,
  ): Promise<UploadedFile["scan"]> {
    const key = bytesKey(folder, record.fileId);
    const verdict = await scanFile({ ...record, uploadId, key }, signal);
    if (verdict === "clean" || verdict === "unscanned") return verdict;
    if (verdict === "defer")
      throw uploadError("unavailable", "the file is still being looked into", {
        retryAfterMs: 5_000,
      });
    await remover.discard(uploadId, signal);
    throw uploadError("permission_denied", "the file was found to be harmful");
  }

  /** What a tool does with a file fails with words for its caller: the SDK sends them. */
  const toTool = (error: unknown): unknown => errorForTool(error, onError);

  function toUploadedFile(
    { uploadId, folder, owner }: FoundUpload,
    { fileId, place, ...facts }: ConfirmedFile,
  ): UploadedFile {
    return {
      uploadId,
      ...facts,
      open: (options = {}) =>
        storage.open(bytesKey(folder, fileId), options).then(
          (opened) => withErrors(opened, toTool),
          (error: unknown) => {
            throw toTool(error);
          },
        ),
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

  return {
    async confirm(principal, uploadId, { claims, unnamed = "refuse" }, signal) {
      const upload = await find(principal, uploadId, signal);
      if (upload.phase === "confirmed") throw confirmedBefore();
      await ensureInTime(upload);
      const records = await readRecords(storage, upload, signal);
      const matches = matchClaims(records, claims);
      if (!matches || (matches.left.length > 0 && unnamed === "refuse")) {
        await remover.discard(uploadId, signal);
        throw uploadError(
          "precondition_failed",
          "the answer does not name the files that came, each with its name, size, type and digest",
        );
      }
      const files: ConfirmedFile[] = [];
      for (const { record, claim } of matches.matched) {
        const scan =
          record.scan === "deferred" ? await scanAgain(upload, record, signal) : record.scan;
        const { fileId, size, mimeType, sha256, place } = record;
        const name = record.name ?? nameOf(claim);
        files.push({ fileId, place, name, size, mimeType, sha256, scan });
      }
      // looking into files takes time
      await ensureInTime(upload);
      // before the marker, so that a crash in between leaves nothing beside what it names
      for (const record of matches.left) await removeRecord(upload, record, signal);
      const confirmation = { files } satisfies ConfirmationRecord;
      if (!(await createJson(storage, markerKey(upload.folder), confirmation, signal)))
        throw confirmedBefore();
      // what became whole since the files were compared; whatever does so from now on sees the marker
      await closing
        .during(undefined, (ending) => removeUnnamed(upload, confirmation, ending))
        .catch(onError);
      return files.map((file) => toUploadedFile(upload, file));
    },

    async received(principal, uploadId, signal) {
      const upload = await find(principal, uploadId, signal);
      const records = await readRecords(storage, upload, signal);
      if (records.length === 0) throw noSuchUpload();
      return records.map(({ name, size, mimeType, sha256 }) => ({
        name: name ?? sanitizeFileName(),
        size,
        mimeType,
        sha256,
      }));
    },

    async reopen(principal, uploadId, signal) {
      const upload = await find(principal, uploadId, signal);
      if (upload.phase !== "confirmed") throw noSuchUpload();
      const marker = markerKey(upload.folder);
      const { files } = await readJson<ConfirmationRecord>(storage, marker, signal);
      const kept = files.filter(({ place }) => upload.places.includes(place));
      if (kept.length === 0) throw noSuchUpload();
      return kept.map((file) => toUploadedFile(upload, file));
    },
  };
}
function noSuchUpload() {
  return uploadError("not_found", "there is no such upload");
}

function confirmedBefore() {
  return uploadError("already_exists", "this upload was confirmed or closed before");
}

/** An opened object whose body fails with other errors. Nothing is read ahead; the faces of files and memory stay. */
function withErrors(opened: OpenedObject, errorFor: (error: unknown) => unknown): OpenedObject {
  const { info, range, file, bytes } = opened;
  let body: ReadableStream<Uint8Array> | undefined;
  return {
    info,
    ...definedMembers({ range, file, bytes }),
    get body() {
      return (body ??= bodyWithErrors(opened.body, errorFor));
    },
  };
}

function bodyWithErrors(
  body: ReadableStream<Uint8Array>,
  errorFor: (error: unknown) => unknown,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(errorFor(error));
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
