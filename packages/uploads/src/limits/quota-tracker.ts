import { clockSkewMs } from "@sluice/core/internal";
import type { UploadLease, UploadStore } from "@sluice/state";
import { newId } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import { keepRenewed, leaseOf } from "./write-lock.ts";

/** Maximum that one principal may have, in all processes that share a store. */
export interface UploadQuota {
  /** Requests with a body at the same time, and a quarter of those that ask about a file or give it up. Default 4. */
  readonly concurrent?: number;
  /** Files that are kept. Default 1,000. */
  readonly files?: number;
  /** Bytes that are kept. Default 10 GiB. */
  readonly bytes?: number;
}

/** A file that storage shows. */
export interface CountedFile {
  readonly owner: string;
  readonly fileId: string;
  readonly bytes: number;
}

/** How long uploads in progress count after their process ended. */
const underWayMs = 20_000;
const renewEveryMs = 5_000;
/** How long a file counts that storage no longer shows. */
const keptMs = 3_600_000;

interface QuotaOptions {
  readonly store: UploadStore;
  readonly quota?: UploadQuota | undefined;
  /** How often storage is looked at, in milliseconds. */
  readonly seedEveryMs: number;
  readonly onError: (error: unknown) => void;
}

/** Counts the uploads of each owner. Renews what is under way in this process until it is over. */
export class QuotaTracker {
  readonly #options: QuotaOptions;
  readonly #limits: Required<UploadQuota>;
  /** Ends the renewal of each file that is held here. */
  readonly #held = new Map<string, () => Promise<void>>();
  /** Owners that storage showed files of when it was last looked at. */
  #shown: readonly string[] = [];

  /** Limits that are not whole numbers from 1 are a `RangeError`. */
  constructor(options: QuotaOptions) {
    const { concurrent = 4, files = 1_000, bytes = 10 * 2 ** 30 } = options.quota ?? {};
    for (const limit of [concurrent, files, bytes])
      if (!Number.isSafeInteger(limit) || limit < 1)
        throw new RangeError(`createUploads: ${limit} is not a quota; pass a whole number from 1`);
    this.#options = options;
    this.#limits = { concurrent, files, bytes };
  }

  /** Takes one of the places for requests with a body; gives the function that gives it back. Throws `throttled`. */
  enter(owner: string): Promise<() => Promise<void>> {
    return this.#takePlace(owner, this.#limits.concurrent, "uploads");
  }

  /** The same for requests without a body, for which there are four times as many places. */
  enterBodyless(owner: string): Promise<() => Promise<void>> {
    // a separate account: an upload that stalls must not keep its owner from resuming it
    const places = 4 * this.#limits.concurrent;
    return this.#takePlace(`${owner}.asking`, places, "requests about uploads");
  }

  /** Counts a file that is about to come, or counts it anew. Throws `no_space` for what would be too much. */
  async hold(owner: string, fileId: string, bytes: number): Promise<void> {
    const { files: maxFiles, bytes: maxBytes } = this.#limits;
    const { store } = this.#options;
    const hold = (): Promise<boolean> =>
      store.hold(owner, fileId, { ...leaseOf(underWayMs), bytes, maxFiles, maxBytes });
    if (!(await hold()))
      throw uploadError(
        "no_space",
        `at most ${maxFiles} files and ${maxBytes} bytes are kept for one user`,
      );
    await this.#letGo(fileId);
    this.#held.set(fileId, this.#renew(hold));
  }

  /** The file is no longer in progress, and kept with this many bytes. Never rejects. */
  async settle(owner: string, fileId: string, bytes: number): Promise<void> {
    const { store, onError } = this.#options;
    await this.#letGo(fileId);
    await store.settle(owner, fileId, { ...this.#keptLease(), bytes }).catch(onError);
  }

  /** Forgets a file. Never rejects. */
  async drop(owner: string, fileId: string): Promise<void> {
    const { store, onError } = this.#options;
    await this.#letGo(fileId);
    await store.drop(owner, fileId).catch(onError);
  }

  /** Counts what storage showed at `listedAt` in place of what was settled before. */
  async seed(kept: Iterable<CountedFile>, listedAt: number): Promise<void> {
    // an owner that has no files any more is reported once, with none
    const owners = new Map<string, CountedFile[]>(this.#shown.map((owner) => [owner, []]));
    for (const file of kept) {
      const files = owners.get(file.owner);
      if (files) files.push(file);
      else owners.set(file.owner, [file]);
    }
    // a process that settled something since then may have another clock
    const spared = { listedAt: listedAt - clockSkewMs };
    for (const [owner, files] of owners)
      await this.#options.store.seed(owner, files, { ...this.#keptLease(), ...spared });
    this.#shown = [...owners].flatMap(([owner, files]) => (files.length > 0 ? [owner] : []));
  }

  async #takePlace(account: string, places: number, what: string): Promise<() => Promise<void>> {
    const { store, onError } = this.#options;
    const place = newId();
    const enter = (): Promise<boolean> =>
      store.enter(account, place, { ...leaseOf(underWayMs), places });
    if (!(await enter()))
      throw uploadError("throttled", `at most ${places} ${what} at the same time`, {
        retryAfterMs: 1_000,
      });
    const stop = this.#renew(enter);
    return async () => {
      await stop();
      await store.leave(account, place).catch(onError);
    };
  }

  #renew(work: () => Promise<unknown>): () => Promise<void> {
    return keepRenewed(work, { everyMs: renewEveryMs, onError: this.#options.onError });
  }

  async #letGo(fileId: string): Promise<void> {
    const stop = this.#held.get(fileId);
    this.#held.delete(fileId);
    await stop?.();
  }

  #keptLease(): UploadLease {
    return leaseOf(keptMs + this.#options.seedEveryMs);
  }
}
