import { SluiceError } from "@sluice/core";
import type { UploadQuota } from "./uploads-options.ts";

/** What the uploads of each owner take up. */
export interface Ledger {
  /** Takes one of the places for requests with a body; gives the function that gives it back. Throws `throttled`. */
  enter(owner: string): () => void;
  /** Counts a file that is about to come, or counts it anew. Throws `no_space` for what would be too much. */
  hold(owner: string, fileId: string, bytes: number): void;
  /** The file is no longer under way, and kept with as many bytes. */
  settle(owner: string, fileId: string, bytes: number): void;
  /** Forgets a file. */
  drop(owner: string, fileId: string): void;
  /** Replaces all but what is under way, or settled since `listedAt`, by what storage showed then. */
  seed(kept: Iterable<KeptFile>, listedAt: number): void;
}

/** A file that storage shows. */
export interface KeptFile {
  readonly owner: string;
  readonly fileId: string;
  readonly bytes: number;
}

interface Account {
  requests: number;
  bytes: number;
  readonly files: Map<string, HeldFile>;
}

interface HeldFile {
  readonly bytes: number;
  /** Unix milliseconds; absent while it is under way. */
  readonly settledAt?: number;
}

/** Makes the ledger of one process. Limits that are no whole number from 1 are a `RangeError`. */
export function createLedger({
  concurrent = 4,
  files: maxFiles = 1_000,
  bytes: maxBytes = 10 * 2 ** 30,
}: UploadQuota = {}): Ledger {
  for (const limit of [concurrent, maxFiles, maxBytes])
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new RangeError(`createUploads: ${limit} is no quota; pass a whole number from 1`);
  const accounts = new Map<string, Account>();

  const accountOf = (owner: string): Account => {
    let account = accounts.get(owner);
    if (!account) accounts.set(owner, (account = { requests: 0, bytes: 0, files: new Map() }));
    return account;
  };
  const put = (owner: string, fileId: string, file: HeldFile | undefined): void => {
    const account = accountOf(owner);
    account.bytes += (file?.bytes ?? 0) - (account.files.get(fileId)?.bytes ?? 0);
    if (file) account.files.set(fileId, file);
    else account.files.delete(fileId);
    forgetEmpty(owner);
  };
  const forgetEmpty = (owner: string): void => {
    const account = accounts.get(owner);
    if (account?.requests === 0 && account.files.size === 0) accounts.delete(owner);
  };

  return {
    enter(owner) {
      const account = accountOf(owner);
      if (account.requests >= concurrent)
        throw new SluiceError(
          "throttled",
          `uploads: ${concurrent} uploads at the same time are the most`,
          { retryAfterMs: 1_000 },
        );
      account.requests += 1;
      let entered = true;
      return () => {
        if (!entered) return;
        entered = false;
        account.requests -= 1;
        forgetEmpty(owner);
      };
    },
    hold(owner, fileId, bytes) {
      const account = accountOf(owner);
      const before = account.files.get(fileId);
      const total = account.bytes - (before?.bytes ?? 0) + bytes;
      if ((!before && account.files.size >= maxFiles) || total > maxBytes) {
        forgetEmpty(owner);
        throw new SluiceError(
          "no_space",
          `uploads: at most ${maxFiles} files and ${maxBytes} bytes are kept for one user`,
        );
      }
      put(owner, fileId, { bytes });
    },
    settle: (owner, fileId, bytes) => put(owner, fileId, { bytes, settledAt: Date.now() }),
    drop: (owner, fileId) => put(owner, fileId, undefined),
    seed(kept, listedAt) {
      for (const [owner, { files }] of accounts)
        for (const [fileId, { settledAt = Infinity }] of files)
          if (settledAt < listedAt) put(owner, fileId, undefined);
      for (const { owner, fileId, bytes } of kept)
        if (!accounts.get(owner)?.files.has(fileId))
          put(owner, fileId, { bytes, settledAt: listedAt });
    },
  };
}
