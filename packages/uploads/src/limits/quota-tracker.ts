import { clockSkewMs } from "@sluice/core";
import type { UploadStore } from "@sluice/state";
import { newId } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import { keepRenewed, leaseOf } from "./leases.ts";

/** Most of what one principal may have, in all processes that share a store. */
export interface UploadQuota {
  /** Requests with a body at the same time, and a quarter of those that ask about a file or give it up. Default 4. */
  readonly concurrent?: number;
  /** Files that are kept. Default 1,000. */
  readonly files?: number;
  /** Bytes that are kept. Default 10 GiB. */
  readonly bytes?: number;
}

/** Counts the uploads of each owner. Renews what is under way in this process until it is over. */
export interface QuotaTracker {
  /** Takes one of the places for requests with a body; gives the function that gives it back. Throws `throttled`. */
  enter(owner: string): Promise<() => Promise<void>>;
  /** The same for requests without a body, for which there are four times as many places. */
  ask(owner: string): Promise<() => Promise<void>>;
  /** Counts a file that is about to come, or counts it anew. Throws `no_space` for what would be too much. */
  hold(owner: string, fileId: string, bytes: number): Promise<void>;
  /** The file is no longer under way, and kept with as many bytes. Never rejects. */
  settle(owner: string, fileId: string, bytes: number): Promise<void>;
  /** Forgets a file. Never rejects. */
  drop(owner: string, fileId: string): Promise<void>;
  /** Counts what storage showed at `listedAt` in place of what was settled before. */
  seed(kept: Iterable<CountedFile>, listedAt: number): Promise<void>;
}

/** A file that storage shows. */
export interface CountedFile {
  readonly owner: string;
  readonly fileId: string;
  readonly bytes: number;
}

/** How long what is under way counts after its process died. */
const underWayMs = 20_000;
const renewEveryMs = 5_000;
/** How long a file counts that storage no longer shows. */
const keptMs = 3_600_000;

/** Makes a tracker over a store. Limits that are no whole number from 1 are a `RangeError`. */
export function createQuotaTracker({
  store,
  quota = {},
  seedEveryMs,
  onError,
}: {
  readonly store: UploadStore;
  readonly quota?: UploadQuota | undefined;
  /** How often storage is looked at, in milliseconds. */
  readonly seedEveryMs: number;
  readonly onError: (error: unknown) => void;
}): QuotaTracker {
  const { concurrent = 4, files: maxFiles = 1_000, bytes: maxBytes = 10 * 2 ** 30 } = quota;
  for (const limit of [concurrent, maxFiles, maxBytes])
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new RangeError(`createUploads: ${limit} is no quota; pass a whole number from 1`);
  /** Ends the renewal of each file that is held here. */
  const held = new Map<string, () => Promise<void>>();
  /** Owners that storage showed files of when it was last looked at. */
  let shown: readonly string[] = [];

  const startRenewing = (work: () => Promise<unknown>): (() => Promise<void>) =>
    keepRenewed(work, { everyMs: renewEveryMs, onError });
  const letGo = async (fileId: string): Promise<void> => {
    const stop = held.get(fileId);
    held.delete(fileId);
    await stop?.();
  };

  async function takePlace(
    account: string,
    { places, what }: { readonly places: number; readonly what: string },
  ): Promise<() => Promise<void>> {
    const place = newId();
    const enter = (): Promise<boolean> =>
      store.enter(account, place, { ...leaseOf(underWayMs), places });
    if (!(await enter()))
      throw uploadError("throttled", `${places} ${what} at the same time are the most`, {
        retryAfterMs: 1_000,
      });
    const stop = startRenewing(enter);
    return async () => {
      await stop();
      await store.leave(account, place).catch(onError);
    };
  }

  return {
    enter: (owner) => takePlace(owner, { places: concurrent, what: "uploads" }),
    // an account of its own: an upload that stalls must not keep its owner from going on with it
    ask: (owner) =>
      takePlace(`${owner}.asking`, { places: 4 * concurrent, what: "questions about uploads" }),
    async hold(owner, fileId, bytes) {
      const hold = (): Promise<boolean> =>
        store.hold(owner, fileId, { ...leaseOf(underWayMs), bytes, maxFiles, maxBytes });
      if (!(await hold()))
        throw uploadError(
          "no_space",
          `at most ${maxFiles} files and ${maxBytes} bytes are kept for one user`,
        );
      await letGo(fileId);
      held.set(fileId, startRenewing(hold));
    },
    async settle(owner, fileId, bytes) {
      await letGo(fileId);
      await store.settle(owner, fileId, { ...leaseOf(keptMs + seedEveryMs), bytes }).catch(onError);
    },
    async drop(owner, fileId) {
      await letGo(fileId);
      await store.drop(owner, fileId).catch(onError);
    },
    async seed(kept, listedAt) {
      // reports an empty quota once per owner
      const owners = new Map<string, CountedFile[]>(shown.map((owner) => [owner, []]));
      for (const file of kept) {
        const files = owners.get(file.owner);
        if (files) files.push(file);
        else owners.set(file.owner, [file]);
      }
      // a process that settled something since then may have another clock
      const spared = { listedAt: listedAt - clockSkewMs };
      for (const [owner, files] of owners)
        await store.seed(owner, files, { ...leaseOf(keptMs + seedEveryMs), ...spared });
      shown = [...owners].flatMap(([owner, files]) => (files.length > 0 ? [owner] : []));
    },
  };
}
