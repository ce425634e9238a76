import type { SluiceError } from "@sluice/core";
import type { OpenSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { FilePlan } from "../store/layout.ts";
import type { ReceivedFile } from "../store/slot-files.ts";
import type { LockLease } from "../limits/write-lock.ts";

/** A file that comes in steps and is not whole, open for the one request that has its lock. */
export interface PartialFile {
  readonly fileId: string;
  readonly plan: FilePlan;
  /** Where the next byte belongs. */
  readonly offset: number;
  /** Takes bytes. A promise means that the next ones have to wait. Throws, or rejects with, what ends the file. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Keeps what came. Gives the offset that storage shows then. Nothing can be written after that. */
  keep(): Promise<number>;
  /** Checks the whole file and makes its bytes an object. */
  finish(signal: AbortSignal): Promise<ReceivedFile>;
  /** Keys of the objects that show how far it is, as far as this request knows them. */
  keys(): readonly string[];
  /** Removes what storage has of it that no listing shows. */
  discard(): Promise<void>;
  /** Lets go of what the request holds, and keeps nothing more. May be repeated. */
  leave(): Promise<void>;
}

/** Which file a request works on, and by which right. */
export interface FileAddress {
  readonly slot: OpenSlot;
  readonly fileId: string;
  /** Nothing is kept once it throws. */
  readonly lease: Pick<LockLease, "ensureOurs">;
}

/** The error if another request has written these bytes already. One that only lost the lock gets `interrupted`. */
export function alreadyResumed(cause?: unknown): SluiceError {
  return uploadError("already_exists", "another request has written these bytes already", {
    cause,
  });
}
