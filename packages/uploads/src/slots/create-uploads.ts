import { definedMembers } from "@sluice/core";
import { createMemoryUploadStore } from "@sluice/state";
import type { Sluice } from "@sluice/server";
import type { Routes } from "@sluice/transport-http";
import { createRequestFiles, type RequestFiles } from "../ask/request-files.ts";
import { recordConfirmation } from "../confirm/audit-step.ts";
import { createConfirmation } from "../confirm/confirm.ts";
import { createUploadRemover } from "../confirm/remove-upload.ts";
import { createPageRoutes } from "../page/page-route.ts";
import { createAnswerTaker } from "../page/take-answer.ts";
import { createUploadPages } from "../page/upload-pages.ts";
import { createQuotaTracker } from "../quota/quota-tracker.ts";
import type { CreateParser } from "../receive/form-parser.ts";
import { createFormReceiver } from "../receive/form-upload.ts";
import { overviewReply } from "../receive/overview.ts";
import { createPartialFiles } from "../resumable/partial-files.ts";
import { createProgressTracker } from "../receive/progress-tracker.ts";
import { createRawReceiver } from "../receive/raw-upload.ts";
import { createBodyReader } from "../receive/read-body.ts";
import { cancelFile, inspectFile } from "../resumable/resumable-file.ts";
import { createStepReceiver } from "../resumable/receive-step.ts";
import { createResumableReceiver } from "../resumable/resumable-upload.ts";
import { createSlotRequests } from "../receive/slot-requests.ts";
import { createUploadRoutes, slotsPath } from "../receive/upload-route.ts";
import { createWriteLock } from "../resumable/write-lock.ts";
import { createFileScanner } from "../store/scan.ts";
import { createSlotFiles } from "../store/slot-files.ts";
import { sweepUploads } from "../store/sweep.ts";
import { startSweeper } from "../store/sweeper.ts";
import { graceMs } from "../store/upload-state.ts";
import { keepBytes } from "./keep-bytes.ts";
import { createOpenRequests } from "./open-requests.ts";
import { createSlotSealer, ownerOf, tagOfOwner } from "./slot-token.ts";
import type { Slots } from "./slots.ts";
import { toUploadStorage } from "./upload-storage.ts";
import type { UploadsOptions } from "./uploads-options.ts";

/** Options of `close`. */
export interface CloseUploadsOptions {
  /** Milliseconds that uploads under way may still take, but for those that can go on elsewhere. Default: 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** Slots and the endpoint that takes what is sent to them. */
export interface Uploads extends Slots {
  /** The routes below the path of an endpoint. For `withUploads`. */
  routes(base: string): Routes;
  /** Asks the user for files, from inside a tool. */
  readonly requestFiles: RequestFiles;
  /** Removes what was never confirmed and whose time is over, unless another process does. Runs at the start and by timer, too. */
  sweep(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /**
   * Ends the timer and the uploads under way: those in steps at once, with what came of them kept, the others at the
   * deadline. Idempotent.
   */
  close(options?: CloseUploadsOptions): Promise<void>;
}

const defaultMaxBytes = 100 * 2 ** 20;

/**
 * Makes the upload side of a Sluice: the same endpoint, keys, identities, limits and records.
 * Throws a `TypeError` or `RangeError` for options that cannot work.
 */
export function createUploads(sluice: Pick<Sluice, "host">, options: UploadsOptions): Uploads {
  if (!(sluice as Partial<Sluice> | undefined)?.host)
    throw new TypeError("createUploads: the first argument must be what createSluice gave");
  if (typeof (options as Partial<UploadsOptions> | undefined)?.storage?.open !== "function")
    throw new TypeError(
      'createUploads: storage must be a backend, such as createFsBackend({ root: "./uploads", writable: true })',
    );
  const { onScan, unscanned, maxBytes = defaultMaxBytes, sweepEveryMs = 60_000 } = options;
  const { store = createMemoryUploadStore() } = options;
  const { host } = sluice;
  if (!onScan && unscanned !== "allow")
    throw new TypeError(
      'createUploads: the files are not scanned; pass onScan, or unscanned: "allow" to use them as they are',
    );
  for (const [name, value] of Object.entries({ maxBytes, sweepEveryMs }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`createUploads: ${name} must be a whole number from 1`);
  const { onError } = host;
  const requests = createOpenRequests();
  const { leaving, closing } = requests;
  const storage = toUploadStorage(options.storage);
  const sealer = createSlotSealer({ keys: host.keys, endpoint: host.endpoint.url, maxBytes });
  const quota = createQuotaTracker({
    store,
    quota: options.quota,
    seedEveryMs: sweepEveryMs,
    onError,
  });
  const progress = createProgressTracker();
  const lock = createWriteLock(store, onError);
  const pages = createUploadPages(host);

  // from a file whose bytes are there to one that the server has
  const scanFile = createFileScanner({ storage, scan: onScan, onError });
  const files = createSlotFiles({ storage, scanFile, quota, onError });
  const remover = createUploadRemover({ storage, quota, progress, host });
  const confirmation = createConfirmation({
    storage,
    quota,
    scanFile,
    remover,
    closing,
    onError,
  });

  // from a request to a file whose bytes are there
  const readBody = createBodyReader(options.pace ?? {});
  const raw = createRawReceiver({ files, quota, progress, readBody });
  const form = createFormReceiver({ files, quota, progress, readBody, createParser, onError });
  const partials = createPartialFiles({ storage, files, quota, progress });
  const resumable = createResumableReceiver({
    files,
    partials,
    quota,
    lock,
    receiveStep: createStepReceiver({ storage, progress, readBody, leaving, onError }),
    removeRefused: (slot, fileId) =>
      partials.remove(slot, fileId, AbortSignal.any([closing])).then(
        () => true,
        (error: unknown) => (onError(error), false),
      ),
  });
  const serve = createSlotRequests({
    quota,
    receivers: { raw, form, resumable },
    lookups: {
      overview: (slot, signal) => overviewReply({ storage, progress }, slot, signal),
      ensureFile: (slot, fileId, signal) => partials.ensure(slot, fileId, signal),
      inspect: (slot, fileId, signal) =>
        inspectFile({ partials, lock }, slot, fileId, { signal, onError }),
      cancel: (slot, fileId, signal) =>
        cancelFile({ partials, lock }, slot, fileId, { signal, pages }),
    },
  });
  const takeAnswer = createAnswerTaker({ storage, sealer, lock, pages, remover, onError });

  const sweeper = startSweeper(
    (signal) => sweepUploads({ storage, quota, remover, onError }, signal),
    {
      store,
      everyMs: sweepEveryMs,
      closing,
      onError,
      // what this process has counted, which no other process can forget
      before: () => progress.forgetBefore(Date.now() - graceMs),
    },
  );

  // one of its own for every call: listeners do not pile up at the one that lasts
  const either = (signal?: AbortSignal): AbortSignal =>
    AbortSignal.any(signal ? [signal, closing] : [closing]);

  const slots: Slots = {
    reserve: (principal, terms, reserveOptions = {}) => {
      const { token, slot } = sealer.seal(principal, terms, reserveOptions);
      const { uploadId, owner, expiresAt } = slot;
      host
        .beginAudit({
          action: "upload",
          step: "reserve",
          grant: uploadId,
          principal: tagOfOwner(owner),
        })
        .end("issued");
      const url = `${host.endpoint.url}${slotsPath}${token}`;
      return { uploadId, url, method: "POST", expiresAt, terms: slot.terms };
    },
    confirm: (principal, uploadId, claims, { signal, unnamed } = {}) =>
      recordConfirmation(host, { uploadId, owner: ownerOf(principal) }, () =>
        confirmation.confirm(
          principal,
          uploadId,
          definedMembers({ claims, unnamed }),
          either(signal),
        ),
      ),
    received: (principal, uploadId, { signal } = {}) =>
      confirmation.received(principal, uploadId, either(signal)),
    reopen: (principal, uploadId, { signal } = {}) =>
      confirmation.reopen(principal, uploadId, either(signal)),
    keep: (principal, file, terms, { signal } = {}) =>
      keepBytes(
        { sealer, receiveRaw: raw, confirmation },
        principal,
        { ...file, terms },
        either(signal),
      ),
    revoke: (principal, { uploadId, expiresAt }) =>
      remover.revoke({ uploadId, expiresAt, owner: ownerOf(principal) }, either()),
    discard: (uploadId) => remover.discard(uploadId, either()),
    progress: (uploadId) => progress.of(uploadId),
  };
  return {
    ...slots,
    routes(base) {
      const slotAt = createUploadRoutes({ host, sealer, requests, serve }, base);
      const pageAt = createPageRoutes({ host, pages, takeAnswer, closing }, base);
      return (path) => slotAt(path) ?? pageAt(path);
    },
    requestFiles: createRequestFiles(host, slots, pages),
    sweep: ({ signal } = {}) => sweeper.sweep(either(signal)),
    async close({ deadlineMs = 0, signal } = {}) {
      await requests.close({ deadlineMs, signal });
      // what tidies up needs the storage, which may be closed next
      await sweeper.close();
    },
  };
}

/** Loads the parser of forms. Only forms need it, and it needs streams of Node, which other runtimes may lack. */
async function createParser(): Promise<CreateParser> {
  const { createFastifyParser } = await import("../receive/form-parser.ts");
  return createFastifyParser;
}
