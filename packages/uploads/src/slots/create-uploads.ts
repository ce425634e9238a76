import type { Sluice } from "@sluice/server";
import { createMemoryUploadStore } from "@sluice/state";
import type { Routes, SluiceHandler } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/handlers";
import { createPendingUploads } from "../ask/pending-uploads.ts";
import { createRequestFiles, type RequestFiles } from "../ask/request-files.ts";
import { createConfirmation } from "../confirm/confirm.ts";
import { createUploadRemover } from "../confirm/remove-upload.ts";
import { createPageRoutes } from "../page/page-route.ts";
import { createAnswerTaker } from "../page/take-answer.ts";
import { createSlotPage } from "../page/slot-page.ts";
import { createUploadPages } from "../page/upload-pages.ts";
import { createQuotaTracker } from "../quota/quota-tracker.ts";
import { createFileUris } from "../files-sep-2631/file-uri.ts";
import { createFormReceiver } from "../receive/form-upload.ts";
import { createOverview } from "../receive/overview.ts";
import { createProgressTracker } from "../receive/progress-tracker.ts";
import { createRawReceiver } from "../receive/raw-upload.ts";
import { createBodyReader } from "../receive/read-body.ts";
import { createSlotRequests } from "../receive/slot-requests.ts";
import { createUploadRoutes } from "../receive/upload-route.ts";
import { createChecksMemory } from "../resumable/checks-memory.ts";
import { createPartialFiles } from "../resumable/partial-files.ts";
import { createStepReceiver } from "../resumable/receive-step.ts";
import { createResumableUploads } from "../resumable/resumable-upload.ts";
import { createWriteLock } from "../resumable/write-lock.ts";
import { createRoom } from "../store/room.ts";
import { createFileScanner } from "../store/scan.ts";
import { createSlotFiles } from "../store/slot-files.ts";
import { startSweeper } from "../store/sweep.ts";
import { toUploadStorage } from "../store/upload-storage.ts";
import { createAskedUploads, type AskedUploads } from "../tools/asked-uploads.ts";
import { createSlots } from "./create-slots.ts";
import { createOpenRequests } from "./open-requests.ts";
import { createSlotTokens } from "./slot-token.ts";
import type { Slots } from "./slots.ts";
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
  /** Files that a model asks for by tools of their own. For `attachUploadTools`. */
  readonly asked: AskedUploads;
  /** Hears of what goes wrong and that no caller is told. */
  readonly onError: (error: unknown) => void;
  /** Removes what was never confirmed and whose time is over, unless another process does. Runs at the start and by timer, too. */
  sweep(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /**
   * Ends the timer and the uploads under way: those in steps at once, with what came of them kept, the others at the
   * deadline. Idempotent.
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
  const requests = createOpenRequests();
  const { leaving, closing } = requests;
  const tokens = createSlotTokens({ host, maxBytes });
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
  const scanFile = createFileScanner({ storage, scan: options.onScan, onError });
  const files = createSlotFiles({ storage, scanFile, quota, onError });
  const remover = createUploadRemover({ storage, quota, progress, host });
  const confirmation = createConfirmation({
    storage,
    store,
    quota,
    scanFile,
    remover,
    closing,
    onError,
  });

  // from a request to a file whose bytes are there
  const readBody = createBodyReader(options.pace ?? {});
  const raw = createRawReceiver({ files, quota, progress, readBody });
  const form = createFormReceiver({ files, quota, progress, readBody, onError });
  const room = createRoom(storage);
  const receiveStep = createStepReceiver({ progress, readBody, leaving });
  const memory = createChecksMemory();
  const partials = createPartialFiles({ storage, files, quota, progress, memory, onError });
  const resumable = createResumableUploads({
    files,
    partials,
    quota,
    lock,
    receiveStep,
    room,
    pages,
    closing,
    onError,
  });
  const overview = createOverview({ storage, progress });
  const serve = createSlotRequests({ quota, partials, overview, raw, form, resumable, room });
  const slotPage = createSlotPage({ pages, storage, host: new URL(host.endpoint.url).host });
  const takeAnswer = createAnswerTaker({ storage, tokens, lock, pages, remover, onError });

  // for tools
  const slots = createSlots({
    host,
    tokens,
    raw,
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
  const pending = createPendingUploads(host);
  const uris = createFileUris(host);
  let isServed = false;
  return {
    ...slots,
    asked: createAskedUploads({ host, slots, pages, pending, uris }),
    onError,
    requestFiles: createRequestFiles({
      host,
      slots,
      pages,
      pending,
      takeAnswer: (page, given) =>
        closing.during(undefined, (ending) => takeAnswer(page, given, ending)),
      isServed: () => isServed,
    }),
    routes(base) {
      isServed = true;
      const slotAt = createUploadRoutes({ host, tokens, requests, serve, slotPage }, base);
      const pageAt = createPageRoutes({ host, pages, takeAnswer, closing }, base);
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

/** The options with their defaults. */
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
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams. Throws a `TypeError` for
 * other arguments than those two.
 */
export function withUploads(handler: SluiceHandler, uploads: Uploads): SluiceHandler {
  if (!(handler as Partial<SluiceHandler> | undefined)?.router)
    throw new TypeError("withUploads: the first argument must be what withSluice gave");
  if (!(uploads as Partial<Uploads> | undefined)?.routes)
    throw new TypeError("withUploads: the second argument must be what createUploads gave");
  return addRoutes(handler, uploads.routes(handler.router.base));
}
