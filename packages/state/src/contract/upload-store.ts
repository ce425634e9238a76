/** Time in which something counts, in unix milliseconds. */
export interface UploadLease {
  readonly now: number;
  /** The lease ends then unless it is prolonged: its process may be gone. */
  readonly until: number;
}

/** Bytes of a file that is about to come, and the bounds of its owner. */
export interface HeldFile extends UploadLease {
  readonly bytes: number;
  /** Maximum files of the owner, this one included. */
  readonly maxFiles: number;
  /** Maximum bytes of the owner, these included. */
  readonly maxBytes: number;
}

/** A file as storage shows it. */
export interface ListedFile {
  readonly fileId: string;
  readonly bytes: number;
}

/** Answer of {@link UploadStore.renew}. */
export type WriterOutcome =
  /** No other writer writes before `until`. */
  | "held"
  /** Another writer still has the file. Ask again. */
  | "waiting"
  /** A newer writer waits: finish before the time that was given last, then release. It is not prolonged. */
  | "wanted"
  /** Write no more. */
  | "lost";

/** Answer of {@link UploadStore.claim}. */
export interface WriterClaim {
  /** Higher than that of every writer before (a fencing token). */
  readonly writer: number;
  readonly outcome: "held" | "waiting";
}

/**
 * The shared state of processes that take uploads into one storage: how much each owner has in progress
 * and keeps, and which writer has a file. Only storage tells the truth about bytes; a file that the
 * store forgets is counted anew. Every method is atomic across processes; a store that cannot answer
 * rejects with `unavailable`. Accounts, owners, permits and ids of files are opaque ASCII of at most
 * 128 characters; times are unix milliseconds and are passed in.
 */
export interface UploadStore {
  /** True when other processes see what is in it, as in `StateStore`. */
  readonly shared: boolean;
  /**
   * Takes one of `permits` permits of an account, or prolongs it under the name it was taken by. False, with
   * nothing changed, when others have them all. An account counts the requests of an owner, or anything else.
   */
  enter(
    account: string,
    permit: string,
    lease: UploadLease & { readonly permits: number },
  ): Promise<boolean>;
  /** Gives a permit back; unknown ones are ignored. */
  leave(account: string, permit: string): Promise<void>;
  /**
   * Counts a file that is about to come, counts it anew, or prolongs that. False, with nothing changed, when
   * it would be too much; a file that counts with at least as many bytes already is never refused.
   */
  hold(owner: string, fileId: string, file: HeldFile): Promise<boolean>;
  /** Counts a file that is no longer in progress, whatever the limits. */
  settle(
    owner: string,
    fileId: string,
    file: UploadLease & { readonly bytes: number },
  ): Promise<void>;
  /** Counts a file no longer; unknown ones are ignored. */
  drop(owner: string, fileId: string): Promise<void>;
  /**
   * Counts the files that storage listed of an owner at `listedAt` in place of all that were
   * settled or listed before. Files that are held, or were settled at that time or later, stay as
   * they are.
   */
  seed(
    owner: string,
    files: readonly ListedFile[],
    lease: UploadLease & { readonly listedAt: number },
  ): Promise<void>;
  /**
   * Asks to write to a file. The newest writer that asks gets it, as soon as the holder releases it
   * or the holder's time expires; all others must stop.
   */
  claim(fileId: string, lease: UploadLease): Promise<WriterClaim>;
  /**
   * Prolongs the time of a writer, or asks whether its turn has come. Even an expired time is
   * prolonged if no other writer asked. A writer newer than all in the store counts: its claim was
   * forgotten since.
   */
  renew(fileId: string, writer: number, lease: UploadLease): Promise<WriterOutcome>;
  /** Ends a writer, whether its turn had come or not; `renew` says `lost` from then on. */
  release(fileId: string, writer: number): Promise<void>;
  /**
   * Gives the time by the clock that leases count by. Without it, the clock of each process counts for what all of them
   * share, such as which uploads are over.
   */
  now?(): Promise<number>;
  /** Releases connections and timers. Idempotent. */
  close?(): Promise<void>;
}
