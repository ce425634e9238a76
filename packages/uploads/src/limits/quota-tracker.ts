import {
  clockSkewMs,
  ensureKnownOptions,
  readLimits,
  type ClientLimits,
} from "@sluice/core/internal";
import type { UploadLease, UploadStore } from "@sluice/state";
import { newId } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import { keepRenewed, leaseOf } from "./lease.ts";

/** What one principal may have, in all processes that share a store; all callers without one count as one. */
export interface UploadLimits {
  /** Maximum simultaneous requests with a body. Four times as many may ask about a file or give one up. Default: 4. */
  readonly requests?: Pick<ClientLimits, "perPrincipal">;
  /** Files that are kept. Default: 1,000. */
  readonly files?: Pick<ClientLimits, "perPrincipal">;
  /** Bytes of files that are kept. Default: 10 GiB. */
  readonly fileBytes?: Pick<ClientLimits, "perPrincipal">;
}

const usualLimits: Readonly<Record<keyof UploadLimits, { readonly perPrincipal: number }>> = {
  requests: { perPrincipal: 4 },
  files: { perPrincipal: 1_000 },
  fileBytes: { perPrincipal: 10 * 2 ** 30 },
};

/** A file that storage shows. */
export interface CountedFile {
  readonly owner: string;
  readonly fileId: string;
  readonly bytes: number;
}

/** How long an upload in progress still counts after its process has ended. */
const underWayMs = 20_000;
const renewEveryMs = 5_000;
/** How long a file still counts after it has disappeared from storage. */
const keptMs = 3_600_000;

interface QuotaOptions {
  readonly store: UploadStore;
  readonly limits?: UploadLimits | undefined;
  /** How often storage is looked at, in milliseconds. */
  readonly seedEveryMs: number;
  readonly onError: (error: unknown) => void;
}

/** Counts the uploads of each owner. Renews what is under way in this process until it is over. */
export class QuotaTracker {
  readonly #options: QuotaOptions;
  readonly #limits: Readonly<Record<keyof UploadLimits, number>>;
  /** Ends the renewal of each file that is held here. */
  readonly #held = new Map<string, () => Promise<void>>();
  /** Owners that storage showed files of when it was last looked at. */
  #shown: readonly string[] = [];

  /** Throws a `TypeError` for limits that do not exist, and a `RangeError` for one that is not a whole number from 1. */
  constructor(options: QuotaOptions) {
    const { limits = {} } = options;
    ensureKnownOptions("createUploads: limits", limits, usualLimits);
    const read = (name: keyof UploadLimits): number =>
      readLimits(`createUploads: limits.${name}`, limits[name], usualLimits[name]).perPrincipal;
    this.#options = options;
    this.#limits = {
      requests: read("requests"),
      files: read("files"),
      fileBytes: read("fileBytes"),
    };
  }

  /** Takes one of the permits for requests with a body; gives the function that gives it back. Throws `throttled`. */
  enter(owner: string): Promise<() => Promise<void>> {
    return this.#takePermit(owner, this.#limits.requests, "uploads");
  }

  /** The same for requests without a body, for which there are four times as many permits. */
  enterBodyless(owner: string): Promise<() => Promise<void>> {
    // a separate account: an upload that stalls must not keep its owner from resuming it
    const permits = 4 * this.#limits.requests;
    return this.#takePermit(`${owner}.asking`, permits, "requests about uploads");
  }

  /** Counts a file that is about to come, or counts it anew. Throws `no_space` for what would be too much. */
  async hold(owner: string, fileId: string, bytes: number): Promise<void> {
    const { files: maxFiles, fileBytes: maxBytes } = this.#limits;
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
    // another process's clock may be off: spare what it may have settled since
    const spared = { listedAt: listedAt - clockSkewMs };
    for (const [owner, files] of owners)
      await this.#options.store.seed(owner, files, { ...this.#keptLease(), ...spared });
    this.#shown = [...owners].flatMap(([owner, files]) => (files.length > 0 ? [owner] : []));
  }

  async #takePermit(account: string, permits: number, what: string): Promise<() => Promise<void>> {
    const { store, onError } = this.#options;
    const permit = newId();
    const enter = (): Promise<boolean> =>
      store.enter(account, permit, { ...leaseOf(underWayMs), permits });
    if (!(await enter()))
      throw uploadError("throttled", `at most ${permits} ${what} at the same time`, {
        retryAfterMs: 1_000,
      });
    const stop = this.#renew(enter);
    return async () => {
      await stop();
      await store.leave(account, permit).catch(onError);
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
