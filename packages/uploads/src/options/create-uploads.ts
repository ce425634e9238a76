import type { Principal } from "@sluice/core";
import { definedMembers, sanitizeFileName } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import type { Host } from "@sluice/server/internal";
import { createMemoryUploadStore, type UploadStore } from "@sluice/state";
import type { StorageBackend } from "@sluice/storage";
import type { RequestBody, Routes, SluiceHandler } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/internal";
import { PendingUploads } from "../ask/pending-uploads.ts";
import { createRequestFiles, type RequestFiles } from "../ask/request-files.ts";
import { Confirmation } from "../confirm/confirm.ts";
import { UploadRemover } from "../confirm/remove-upload.ts";
import { startSweeper } from "../confirm/sweep.ts";
import { createFileUris } from "../files-sep-2631/file-uri.ts";
import { QuotaTracker, type UploadQuota } from "../limits/quota-tracker.ts";
import { StorageRoom } from "../limits/room.ts";
import { WriteLock } from "../limits/write-lock.ts";
import { takeAnswer } from "../page/take-answer.ts";
import { UploadPageStore } from "../page/upload-pages.ts";
import { receiveFile, type ReceiverParts } from "../receive/raw-upload.ts";
import { createBodyReader, type UploadPace } from "../receive/read-body.ts";
import { ChecksMemory } from "../resumable/checks-memory.ts";
import { PartialFiles } from "../resumable/partial-files.ts";
import { ResumableUploads } from "../resumable/resumable-upload.ts";
import { createPageRoutes } from "../routes/page-route.ts";
import { createUploadRoutes } from "../routes/upload-route.ts";
import { OpenRequests, type Shutdown } from "../slots/open-requests.ts";
import { ProgressTracker } from "../slots/progress-tracker.ts";
import { ownerOf, SlotTokens, tagOfOwner } from "../slots/slot-token.ts";
import type { Slots, UploadedFile } from "../slots/slots.ts";
import { codeOf } from "../slots/upload-error.ts";
import type { Scan } from "../store/scan.ts";
import { SlotFiles } from "../store/slot-files.ts";
import { toUploadStorage } from "../store/upload-storage.ts";
import { type AskedUploads, createAskedUploads } from "../tools/asked-uploads.ts";

/** Options of `createUploads`. */
export interface UploadsOptions {
  /** Where files go: any backend with `write` and `remove` that nothing lists resources from. */
  readonly storage: StorageBackend;
  /** Shared by all processes over the same storage; it stays the caller's. Default: one in memory, for one process. */
  readonly store?: UploadStore;
  /** Largest file, in bytes, whatever a slot says. Default 100 MiB. */
  readonly maxBytes?: number;
  /** Looks into each file. Without it `unscanned` must be `"allow"`. */
  readonly onScan?: Scan;
  /** `"allow"`: files may be used without a scan. */
  readonly unscanned?: "allow";
  readonly quota?: UploadQuota;
  /** Bounds on how slowly a body may come. */
  readonly pace?: UploadPace;
  /** Milliseconds between sweeps of what was never confirmed. Default 60,000. */
  readonly sweepEveryMs?: number;
}

/** Options of `close`. */
export interface CloseUploadsOptions {
  /** Milliseconds that uploads in progress may still take, but for those that can resume elsewhere. Default: 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** Slots and the endpoint that takes what is sent to them. */
export interface Uploads extends Slots {
  /** The Sluice that they were made for, as its other packages see it. */
  readonly host: Host;
  /** The routes below the path of an endpoint. For `createHandler`. */
  routes(base: string): Routes;
  /** Asks the user for files, from inside a tool. */
  readonly requestFiles: RequestFiles;
  /** Files that a model asks for by tools of their own. For `attachUploadTools`. */
  readonly asked: AskedUploads;
  /** Receives errors that no caller is told. */
  readonly onError: (error: unknown) => void;
  /** Removes what was never confirmed and whose time is over, unless another process does. Also runs at the start and by timer. */
  sweep(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /**
   * Ends the timer and the uploads in progress: those in steps at once, with what came of them kept, the others at
   * the deadline. Idempotent.
   */
  close(options?: CloseUploadsOptions): Promise<void>;
}

/**
 * Makes the upload side of a Sluice: the same endpoint, keys, identities, limits and records.
 * Throws a `TypeError` or `RangeError` for options that cannot work.
 */
export function createUploads(sluice: Pick<Sluice, "host">, options: UploadsOptions): Uploads {
  const { storage, store, maxBytes, sweepEveryMs } = checkedOptions(sluice, options);
  const { host } = sluice;
  const { onError } = host;

  // what all of it shares
  const requests = new OpenRequests();
  const { closing } = requests;
  const tokens = new SlotTokens(host, maxBytes);
  const quota = new QuotaTracker({
    store,
    quota: options.quota,
    seedEveryMs: sweepEveryMs,
    onError,
  });
  const progress = new ProgressTracker();
  const lock = new WriteLock(store, onError);
  const pages = new UploadPageStore(host);

  // from a file whose bytes are there to one that the server has
  const scan = options.onScan;
  const files = new SlotFiles({ storage, scan, quota, onError });
  const remover = new UploadRemover({ storage, quota, progress, host });
  const confirmation = new Confirmation({ storage, store, quota, scan, remover, closing, onError });

  // from a request to a file whose bytes are there
  const readBody = createBodyReader(options.pace ?? {});
  const receiving = { files, quota, progress, readBody, onError };
  const room = new StorageRoom(storage);
  const memory = new ChecksMemory();
  const partials = new PartialFiles({ storage, files, quota, progress, memory, onError });
  const isAnswered = (uploadId: string): Promise<boolean> => pages.isAnswered(uploadId);
  const resumable = new ResumableUploads({
    ...receiving,
    partials,
    lock,
    room,
    isAnswered,
    requests,
  });
  const services = { ...receiving, storage, partials, resumable, room };
  const answering = { storage, tokens, lock, pages, remover, onError };

  // for tools
  const slots = slotsOver({
    host,
    tokens,
    receiving,
    confirmation,
    remover,
    pages,
    progress,
    closing,
  });
  const sweeper = startSweeper({
    storage,
    store,
    quota,
    remover,
    progress,
    everyMs: sweepEveryMs,
    closing,
    onError,
  });
  const pending = new PendingUploads(host);
  const uris = createFileUris(host);
  let isServed = false;
  return {
    ...slots,
    host,
    asked: createAskedUploads({ host, slots, pages, pending, uris }),
    onError,
    requestFiles: createRequestFiles({
      host,
      slots,
      pages,
      pending,
      takeAnswer: (page, given) =>
        closing.during(undefined, (ending) => takeAnswer(answering, page, given, ending)),
      isServed: () => isServed,
    }),
    routes(base) {
      isServed = true;
      const slotAt = createUploadRoutes({ host, tokens, requests, services, pages }, base);
      const pageAt = createPageRoutes({ host, pages, answering, closing }, base);
      return (path) => slotAt(path) ?? pageAt(path);
    },
    sweep: ({ signal } = {}) =>
      requests.track(closing.during(signal, (ending) => sweeper.sweep(ending))),
    async close({ deadlineMs = 0, signal } = {}) {
      await requests.close(deadlineMs, signal);
      memory.clear();
      // what tidies up needs the storage, which may be closed next
      await sweeper.close();
    },
  };
}

function checkedOptions(sluice: Pick<Sluice, "host">, options: UploadsOptions) {
  if (!(sluice as Partial<Sluice> | undefined)?.host)
    throw new TypeError("createUploads: the first argument must be what createSluice gave");
  if (typeof (options as Partial<UploadsOptions> | undefined)?.storage?.open !== "function")
    throw new TypeError(
      'createUploads: storage must be a backend, such as createFsBackend({ root: "./uploads", writable: true })',
    );
  const { onScan, unscanned, maxBytes = 100 * 2 ** 20, sweepEveryMs = 60_000 } = options;
  if (!onScan && unscanned !== "allow")
    throw new TypeError(
      'createUploads: the files are not scanned; pass onScan, or unscanned: "allow" to use them as they are',
    );
  for (const [name, value] of Object.entries({ maxBytes, sweepEveryMs }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`createUploads: ${name} must be a whole number from 1`);
  const { store = createMemoryUploadStore() } = options;
  return { storage: toUploadStorage(options.storage), store, maxBytes, sweepEveryMs };
}

/**
 * Adds the upload endpoint (`<endpoint>/u/…` and `<endpoint>/uploads/…`) and its pages to a handler, behind its checks of `Host` and `Origin`. Over
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams.
 */
export function withUploads(handler: SluiceHandler, uploads: Uploads): SluiceHandler {
  return addRoutes(handler, uploads.routes(handler.router.base));
}

/** The slots of one endpoint. What they do ends when `closing` aborts. */
function slotsOver({
  host,
  tokens,
  receiving,
  confirmation,
  remover,
  pages,
  progress,
  closing,
}: {
  readonly host: Pick<Host, "beginAudit" | "onError">;
  readonly tokens: SlotTokens;
  readonly receiving: ReceiverParts;
  readonly confirmation: Confirmation;
  readonly remover: UploadRemover;
  readonly pages: Pick<UploadPageStore, "concludeSlot">;
  readonly progress: ProgressTracker;
  readonly closing: Shutdown;
}): Slots {
  return {
    async reserve(principal, terms, options = {}) {
      const { url, slot } = await tokens.issue(principal, terms, options);
      const { uploadId, owner, expiresAt } = slot;
      const audited = { grant: uploadId, principal: tagOfOwner(owner) };
      host.beginAudit({ action: "upload", step: "reserve", ...audited }).end("issued");
      return { uploadId, url, method: "POST", expiresAt, terms: slot.terms };
    },

    async confirm(principal, uploadId, claims, { signal, unnamed } = {}) {
      const files = await recordConfirmation(host, principal, uploadId, () => {
        const answer = definedMembers({ claims, unnamed });
        return closing.during(signal, (ending) =>
          confirmation.confirm(principal, uploadId, answer, ending),
        );
      });
      await pages.concludeSlot(uploadId, "accepted").catch(host.onError);
      return files;
    },
    received: (principal, uploadId, { signal } = {}) =>
      closing.during(signal, (ending) => confirmation.received(principal, uploadId, ending)),
    reopen: (principal, uploadId, { signal } = {}) =>
      closing.during(signal, (ending) => confirmation.reopen(principal, uploadId, ending)),

    keep: (principal, file, terms, { signal } = {}) =>
      closing.during(signal, async (ending) => {
        const { name, mimeType } = file;
        const { size, body } = "bytes" in file ? bodyOf(file.bytes) : file;
        const slot = tokens.describe(principal, terms);
        const records = await receiveFile(receiving, {
          slot,
          facts: {
            ...definedMembers({ contentLength: size, contentType: mimeType }),
            name: name === undefined ? undefined : sanitizeFileName(name),
          },
          body,
          signal: ending,
          onBytes: () => {},
        });
        const claims = records.map((record) => ({
          name: sanitizeFileName(name, "file"),
          size: record.size,
          mimeType: record.mimeType,
          sha256: record.sha256,
        }));
        const [kept] = await confirmation.confirm(principal, slot.uploadId, { claims }, ending);
        return kept!;
      }),

    async revoke(principal, { uploadId, expiresAt }) {
      const slot = { uploadId, expiresAt, owner: ownerOf(principal) };
      await closing.during(undefined, (ending) => remover.revoke(slot, ending));
      await pages.concludeSlot(uploadId, "cancelled").catch(host.onError);
    },
    discard: (uploadId) => closing.during(undefined, (ending) => remover.discard(uploadId, ending)),
    progress: (uploadId) => progress.of(uploadId),
  };
}

function bodyOf(bytes: Uint8Array): { readonly size: number; readonly body: RequestBody } {
  return { size: bytes.byteLength, body: { read: async (take) => take(bytes) } };
}

/** Confirms an upload within an audit record: where records are required and there is none, confirms nothing. */
async function recordConfirmation(
  host: Pick<Host, "beginAudit">,
  owner: Principal | undefined,
  uploadId: string,
  work: () => Promise<readonly UploadedFile[]>,
): Promise<readonly UploadedFile[]> {
  const principal = tagOfOwner(ownerOf(owner));
  const entry = host.beginAudit({ action: "upload", step: "confirm", grant: uploadId, principal });
  try {
    await entry.admit();
    const files = await entry.run(work);
    await entry.conclude("complete", { bytes: files.reduce((sum, { size }) => sum + size, 0) });
    return files;
  } catch (error) {
    const reason = codeOf(error);
    entry.end(reason === "internal" || reason === "unavailable" ? "failed" : "denied", { reason });
    throw error;
  }
}
