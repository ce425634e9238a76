import { backgroundClock } from "@sluice/core/internal";
import type { UploadStore } from "@sluice/state";
import type { UploadRemover } from "./remove-upload.ts";
import type { CountedFile, QuotaTracker } from "../limits/quota-tracker.ts";
import type { ProgressTracker } from "../slots/progress-tracker.ts";
import type { ShutdownStage } from "../slots/open-requests.ts";
import { newId } from "../slots/slots.ts";
import {
  type ConfirmationRecord,
  markerKey,
  parseObject,
  removeObject,
  type UploadObject,
  uploadsPrefix,
} from "../store/layout.ts";
import { keepRenewed, leaseOf, sharedNow } from "../limits/lease.ts";
import { endOf, endOfStep, graceMs, stateOf, type UploadState } from "../store/upload-state.ts";
import { listAll, readJson, type UploadStorage } from "../store/upload-storage.ts";

/** Sweeps, in one process at a time of those that share a store. */
export interface Sweeper {
  /**
   * Sweeps now, unless another process does so. Each call sweeps by itself: in Workers the sweep of a request that ended
   * never does.
   */
  sweep(signal: AbortSignal): Promise<void>;
  /** Ends the timer, waits for the sweep in progress, and lets another process sweep from then on. */
  close(): Promise<void>;
}

interface SweptUploads {
  readonly storage: UploadStorage;
  readonly quota: QuotaTracker;
  readonly remover: Pick<UploadRemover, "discard">;
  readonly onError: (error: unknown) => void;
}

/** The account of the one place for sweepers. Owners are hexadecimal or `anonymous`. */
const account = "sweep";

/**
 * Sweeps at once and on an interval. The process that swept last keeps sweeping; another one takes over when its lease
 * has ended.
 */
export function startSweeper({
  store,
  everyMs,
  progress,
  closing,
  ...uploads
}: SweptUploads & {
  readonly store: UploadStore;
  readonly everyMs: number;
  readonly progress: ProgressTracker;
  /** Ends the sweeps of the timer. */
  readonly closing: ShutdownStage;
}): Sweeper {
  const { onError } = uploads;
  const permit = newId();
  const enter = (): Promise<boolean> =>
    store.enter(account, permit, { ...leaseOf(2 * everyMs), permits: 1 });

  async function sweepAlone(signal: AbortSignal): Promise<void> {
    // what this process has counted, which no other process can forget
    progress.forgetBefore(Date.now() - graceMs);
    if (!(await enter())) return;
    const stop = keepRenewed(enter, { everyMs, onError });
    try {
      await sweepUploads(uploads, await sharedNow(store), signal);
    } finally {
      await stop();
    }
  }

  let cancel: (() => void) | undefined;
  let byTimer: Promise<void> | undefined;
  const sweepByTimer = (): void => {
    cancel = backgroundClock.schedule(sweepByTimer, everyMs);
    byTimer ??= closing
      .runUntil(undefined, sweepAlone)
      .catch((error: unknown) => {
        if (!closing.isOver) onError(error);
      })
      .finally(() => void (byTimer = undefined));
  };
  sweepByTimer();

  return {
    sweep: sweepAlone,
    async close() {
      cancel?.();
      await byTimer;
      await store.leave(account, permit).catch(onError);
    },
  };
}

/**
 * Removes unconfirmed uploads whose slot ended, or whose last byte came, more than 5 minutes ago, and what a confirmed
 * one has beside its files, by the clock of the store (`now`). Counts anew what each owner keeps.
 */
async function sweepUploads(
  { storage, quota, remover, onError }: SweptUploads,
  now: number,
  signal: AbortSignal,
): Promise<void> {
  const listedAt = Date.now();
  const uploads = new Map<string, UploadObject[]>();
  for (const info of await listAll(storage, uploadsPrefix, signal)) {
    const object = parseObject(info);
    if (!object) continue;
    const objects = uploads.get(object.uploadId);
    if (objects) objects.push(object);
    else uploads.set(object.uploadId, [object]);
  }
  const isOver = (state: UploadState): boolean => now >= endOf(state) + graceMs;
  const isWorthless = (state: UploadState): boolean =>
    isOver(state) && (state.phase !== "confirmed" || state.places.length === 0);
  const keptFiles: CountedFile[] = [];
  for (const [uploadId, objects] of uploads)
    try {
      const state = stateOf(objects.map(({ info }) => info));
      if (isWorthless(state)) await remover.discard(uploadId, signal, isWorthless);
      else if (isOver(state))
        keptFiles.push(...filesIn(await removeLeftovers(storage, objects, signal)));
      else keptFiles.push(...filesIn(objects));
    } catch (error) {
      signal.throwIfAborted();
      // one that cannot be swept must not keep the others
      onError(error);
      keptFiles.push(...filesIn(objects));
    }
  await quota.seed(keptFiles, listedAt);
}

/** Removes what a confirmed upload has beside its files: parts of others, and bytes that a crash left. */
async function removeLeftovers(
  storage: UploadStorage,
  objects: readonly UploadObject[],
  signal: AbortSignal,
): Promise<UploadObject[]> {
  const count = (wanted: UploadObject["kind"]): number =>
    objects.filter(({ kind }) => kind === wanted).length;
  const unfinishedCount = count("part") + count("step") + count("plan");
  const isClean = count("bytes") <= count("file") && unfinishedCount === 0;
  if (isClean) return [...objects];
  const marker = markerKey(objects[0]!.folder);
  const { files } = await readJson<ConfirmationRecord>(storage, marker, signal);
  const fileIds = new Set(files.map(({ fileId }) => fileId));
  const keptObjects: UploadObject[] = [];
  for (const object of objects)
    if ("fileId" in object && !(object.kind === "bytes" && fileIds.has(object.fileId)))
      await removeObject(storage, object, signal);
    else keptObjects.push(object);
  return keptObjects;
}

/** Files with their bytes, as they count for their owner. */
function filesIn(objects: readonly UploadObject[]): CountedFile[] {
  const files = new Map<string, CountedFile>();
  for (const object of objects) {
    if (!("fileId" in object)) continue;
    const { fileId, owner } = object;
    const before = files.get(fileId)?.bytes ?? 0;
    const bytes =
      object.kind === "step" ? Math.max(before, endOfStep(object)) : before + bytesOf(object);
    files.set(fileId, { owner, fileId, bytes });
  }
  return [...files.values()];
}

/** The plan of a file is not among its bytes. */
function bytesOf({ kind, info }: UploadObject): number {
  return kind === "plan" ? 0 : (info.size ?? 0);
}
