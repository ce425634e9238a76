import { createMemoryUploadStore } from "@sluice/core";
import type { Sluice } from "@sluice/server";
import { confirmUpload, discardUpload, receivedFiles, reopenUpload } from "../confirm/confirm.ts";
import { keepBytes } from "../store/keep-bytes.ts";
import { createLedger } from "../quota/ledger.ts";
import { createUploadPages } from "../page/upload-pages.ts";
import { createProgressBoard } from "../receive/progress.ts";
import { recordConfirmation } from "../confirm/record-step.ts";
import { createRequestFiles, type RequestFiles } from "../ask/request-files.ts";
import { revokeSlot } from "./revoke.ts";
import { createSlotSealer, ownerOf, tagOfOwner } from "./slot-token.ts";
import type { Slots } from "./slots.ts";
import { startSweeper } from "../store/sweeper.ts";
import { createTurns } from "../receive/turns.ts";
import { slotsPath } from "../receive/upload-route.ts";
import { toUploadStorage } from "./upload-storage.ts";
import type { UploadsOptions } from "./uploads-options.ts";
import type { UploadsParts } from "./uploads-parts.ts";
import { uploadError } from "./upload-error.ts";

/** How to close. */
export interface CloseUploadsOptions {
  /** Milliseconds that uploads under way may still take, but for those that can go on elsewhere. Default 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** Slots and the endpoint that takes what is sent to them. */
export interface Uploads extends Slots {
  /** What its routes work with. For `withUploads`. */
  readonly parts: UploadsParts;
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
      'createUploads: nobody looks into the files; pass onScan, or unscanned: "allow" to use them as they are',
    );
  for (const [name, value] of Object.entries({ maxBytes, sweepEveryMs }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`createUploads: ${name} must be a whole number from 1`);
  const leaving = new AbortController();
  const closing = new AbortController();
  const parts: UploadsParts = {
    host,
    storage: toUploadStorage(options.storage),
    sealer: createSlotSealer({ keys: host.keys, endpoint: host.endpoint.url, maxBytes }),
    ledger: createLedger({
      store,
      quota: options.quota,
      seedEveryMs: sweepEveryMs,
      onError: host.onError,
    }),
    board: createProgressBoard(),
    turns: createTurns(store, host.onError),
    pace: options.pace ?? {},
    scan: onScan,
    pages: createUploadPages(host),
    underWay: new Set(),
    leaving: leaving.signal,
    closing: closing.signal,
  };
  // one of its own for every call: listeners do not pile up at the one that lasts
  const either = (signal?: AbortSignal): AbortSignal =>
    AbortSignal.any(signal ? [signal, closing.signal] : [closing.signal]);

  const sweeper = startSweeper(parts, { store, everyMs: sweepEveryMs });

  const slots: Slots = {
    reserve: (principal, terms, reserveOptions = {}) => {
      const { token, slot } = parts.sealer.seal(principal, terms, reserveOptions);
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
    confirm: (principal, uploadId, claims, { signal, unnamed = "refuse" } = {}) =>
      recordConfirmation(host, { uploadId, owner: ownerOf(principal) }, () =>
        confirmUpload(parts, principal, uploadId, { claims, unnamed }, either(signal)),
      ),
    received: (principal, uploadId, { signal } = {}) =>
      receivedFiles(parts, principal, uploadId, either(signal)),
    reopen: (principal, uploadId, { signal } = {}) =>
      reopenUpload(parts, principal, uploadId, either(signal)),
    keep: (principal, file, terms, { signal } = {}) =>
      keepBytes(parts, principal, file, terms, either(signal)),
    revoke: (principal, { uploadId, expiresAt }) =>
      revokeSlot(parts, { uploadId, expiresAt, owner: ownerOf(principal) }, either()),
    discard: (uploadId) => discardUpload(parts, uploadId, either()),
    progress: (uploadId) => parts.board.of(uploadId),
  };
  return {
    ...slots,
    parts,
    requestFiles: createRequestFiles(host, slots, parts.pages),
    sweep: ({ signal } = {}) => sweeper.sweep(either(signal)),
    async close({ deadlineMs = 0, signal } = {}) {
      leaving.abort(uploadError("interrupted", "the endpoint is about to be closed"));
      await settleWithin(deadlineMs, [...parts.underWay], signal);
      closing.abort(new Error("uploads: the endpoint is closed"));
      // whoever closes the storage next must not take it from those that tidy up
      await Promise.allSettled([sweeper.close(), ...parts.underWay]);
    },
  };
}

/** Waits until all of them are settled, or so many milliseconds, or the signal aborts. */
async function settleWithin(
  ms: number,
  works: readonly Promise<unknown>[],
  signal?: AbortSignal,
): Promise<void> {
  if (ms <= 0 || signal?.aborted) return;
  const over = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    // beyond that a timer goes off at once
    timer = setTimeout(resolve, Math.min(ms, 2 ** 31 - 1));
    signal?.addEventListener("abort", () => resolve(), { signal: over.signal });
  });
  await Promise.race([Promise.allSettled(works), late]);
  clearTimeout(timer);
  over.abort();
}
