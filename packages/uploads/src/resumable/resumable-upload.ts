import { definedMembers, onAbort, systemClock } from "@sluice/core/internal";
import { ensureSize, type ReceiverParts } from "../receive/body-reader.ts";
import { digestOfWhole, type RequestFacts, type UploadRequest } from "../receive/request-facts.ts";
import type { OpenRequests } from "../slots/open-requests.ts";
import { newId } from "../slots/slots.ts";
import type { OpenSlot, PresentedSlot } from "../slots/slot-token.ts";
import { codeOf, RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { FileRecord } from "../store/layout.ts";
import { exceedsStorage, type StorageRoom } from "../limits/room.ts";
import type { PartialFile } from "./partial-file.ts";
import type { PartialFiles, UploadListing } from "./partial-files.ts";
import type { LockLease, WriteLock } from "../limits/write-lock.ts";

// Uploads in steps, as draft-ietf-httpbis-resumable-upload (§) describes them. Steps of tus come here as well.

/** How far a file is. */
export interface FileProgress {
  readonly fileId: string;
  readonly offset: number;
  /** Bytes of the whole file, if known. */
  readonly length?: number | undefined;
  /** The whole file, once it is a file of the slot. */
  readonly record?: FileRecord;
}

/** Longest time to store what came, if another request waits for the file: it waits for 10 s. */
const longestKeepMs = 8_000;
/** How many files may be begun in a slot beyond those that it takes. */
const spareFiles = 4;

interface ResumableParts extends ReceiverParts {
  readonly partials: PartialFiles;
  readonly lock: WriteLock;
  readonly room: StorageRoom;
  /** Whether the user's answer names the files of an upload already: a tool is about to take them. */
  readonly isAnswered: (uploadId: string) => Promise<boolean>;
  /** A step ends early when the endpoint is about to close. */
  readonly requests: Pick<OpenRequests, "leaving" | "closing">;
}

/** Takes files in steps. */
export class ResumableUploads {
  readonly #parts: ResumableParts;

  constructor(parts: ResumableParts) {
    this.#parts = parts;
  }

  /** Begins a file, with its first bytes or without any (§4.2). */
  async begin(request: UploadRequest): Promise<FileProgress> {
    const { files, partials, quota } = this.#parts;
    const { slot, facts } = request;
    const { terms, owner } = slot;
    const length = lengthOf(facts, 0);
    ensureSize(length ?? facts.contentLength, terms.maxBytes);
    const listing = await partials.list(slot, request.signal);
    await files.ensureOpen(slot, request.signal, listing.state);
    const { unfinished, places } = listing.state;
    if (unfinished.size + places.length >= terms.maxFiles + spareFiles)
      throw uploadError("already_exists", "too many files were begun here");
    const fileId = newId();
    const { name, contentType: declaredType } = facts;
    const sha256 = facts.complete ? digestOfWhole(facts) : facts.sha256;
    const plan = definedMembers({ name, declaredType, length, sha256 });
    // the lock comes first: the plan shows the file to other requests
    return this.#withLease(fileId, request.signal, async (signal, lease) => {
      await quota.hold(owner, fileId, length ?? terms.maxBytes);
      let file: PartialFile;
      try {
        file = await partials.begin({ slot, fileId, lease }, plan, signal);
      } catch (error) {
        await quota.drop(owner, fileId);
        throw error;
      }
      return this.#receive({ ...request, signal }, file, { length, lease, listing });
    });
  }

  /** Resumes a file at the offset that the request says (§4.4). */
  append(request: UploadRequest, fileId: string): Promise<FileProgress> {
    const { partials, quota, onError } = this.#parts;
    const { slot, facts } = request;
    const { offset } = facts;
    return this.#withLease(fileId, request.signal, async (signal, lease) => {
      const fileInSlot = await partials.open({ slot, fileId, lease }, signal);
      if ("record" in fileInSlot) throw uploadError("already_exists", "this file is complete");
      const { file, listing } = fileInSlot;
      let length: number | undefined;
      try {
        if (file.offset !== offset)
          throw uploadError(
            "precondition_failed",
            `the file resumes at byte ${file.offset}, not at ${offset}`,
            { size: file.offset },
          );
        length = lengthOf(facts, file.offset, file.plan.length);
        // another process may have begun it, or this one before a restart
        await quota.hold(slot.owner, fileId, length ?? slot.terms.maxBytes);
      } catch (error) {
        await file.keep().catch(onError);
        throw error;
      }
      return this.#receive({ ...request, signal }, file, { length, lease, listing });
    });
  }

  /** Says how far a file is (§4.3), after ending a request that is resuming it. */
  inspect(slot: OpenSlot, fileId: string, signal: AbortSignal): Promise<FileProgress> {
    const { partials, onError } = this.#parts;
    return this.#withLease(fileId, signal, async (_leaseSignal, lease) => {
      const fileInSlot = await partials.open({ slot, fileId, lease }, signal);
      if ("file" in fileInSlot) {
        const { length } = fileInSlot.file.plan;
        return { fileId, offset: await fileInSlot.file.keep(), length };
      }
      // a process that stopped after it recorded the file left behind what showed its progress
      await partials
        .removeUnfinished(fileId, fileInSlot.listing, signal)
        .catch((error: unknown) => {
          if (!signal.aborted) onError(error);
        });
      return wholeProgress(fileInSlot.record);
    });
  }

  /** Gives up a file (§4.5): removes what came of it, even if it is whole, unless it is confirmed. */
  cancel(slot: PresentedSlot, fileId: string, signal: AbortSignal): Promise<void> {
    const { partials, isAnswered } = this.#parts;
    return this.#withLease(fileId, signal, async () => {
      const listing = await partials.list(slot, signal);
      if (listing.state.phase === "confirmed")
        throw uploadError("already_exists", "this upload was confirmed or closed before");
      if (slot.auth === "self" && (await isAnswered(slot.uploadId)))
        throw uploadError("already_exists", "an answer names this file already");
      await partials.remove(slot, fileId, signal, listing);
    });
  }

  /** Works on a file while no other request does; the signal of `work` aborts when another one asks for it. */
  async #withLease<T>(
    fileId: string,
    signal: AbortSignal,
    work: (signal: AbortSignal, lease: LockLease) => Promise<T>,
  ): Promise<T> {
    const lease = await this.#parts.lock.acquire(fileId, signal);
    try {
      return await work(AbortSignal.any([signal, lease.signal]), lease);
    } finally {
      await lease.release();
    }
  }

  /** Receives one step of a file that is already held in the quota, and makes the file whole after the last one. */
  async #receive(
    request: UploadRequest,
    file: PartialFile,
    {
      length,
      lease,
      listing,
    }: {
      readonly length: number | undefined;
      readonly lease: LockLease;
      /** Of the upload, if the request has needed it already. */
      readonly listing: UploadListing | undefined;
    },
  ): Promise<FileProgress> {
    const { files, partials, quota, room, onError } = this.#parts;
    const { slot, facts, signal } = request;
    const { fileId } = file;
    let isHeld = true;
    try {
      const rest = length === undefined ? facts.contentLength : length - file.offset;
      await room.during(request, rest, (bookedRequest) =>
        this.#readStep(bookedRequest, file, length),
      );
      const isWhole = facts.complete ?? file.offset === length;
      if (!isWhole) return { fileId, offset: await keepInTime(file, lease), length };
      if (length !== undefined && file.offset !== length) throw inconsistent();
      // checked before the bytes are copied and scanned
      const found = listing ?? (await partials.list(slot, signal));
      await files.ensureOpen(slot, signal, found.state);
      const record = await partials.finish(slot, file, { listing: found, signal });
      isHeld = false;
      return wholeProgress(record);
    } catch (error) {
      // what cannot become whole must not keep the storage full for all others
      const isUseless = file.offset === 0 && codeOf(error) === "no_space";
      const isRefused = error instanceof RefusedFile || exceedsStorage(error) || isUseless;
      if (!isRefused) await keepInTime(file, lease).catch(onError);
      // after an abort a newer request has the file, and judges for itself
      if (isRefused && !lease.signal.aborted) {
        await file.leave();
        isHeld = !(await this.#removeRefused(slot, fileId));
      }
      throw error;
    } finally {
      await file.leave();
      // the quota counts the announced bytes until the next sweep, and then those in storage
      if (isHeld) await quota.settle(slot.owner, fileId, length ?? slot.terms.maxBytes);
    }
  }

  /**
   * Reads the body of a step into a file of `length` bytes, if known. What has come is written even if the body breaks.
   */
  async #readStep(
    request: UploadRequest,
    file: PartialFile,
    length: number | undefined,
  ): Promise<void> {
    const { progress, readBody, requests } = this.#parts;
    const { slot, facts, body } = request;
    const { uploadId, terms } = slot;
    const maxBytes = length ?? terms.maxBytes;
    ensureSize(file.offset + (facts.contentLength ?? 0), maxBytes);
    progress.begin(slot, file.fileId, { received: file.offset, total: length });
    const take = (chunk: Uint8Array): Promise<void> | undefined => {
      if (file.offset + chunk.byteLength > maxBytes)
        throw new RefusedFile("too_large", `more than ${maxBytes} bytes came`);
      progress.add(uploadId, file.fileId, chunk.byteLength);
      request.onBytes(chunk.byteLength);
      return file.write(chunk);
    };
    await requests.leaving.runUntil(request.signal, (signal) => readBody({ body, signal }, take));
  }

  /** Removes a file that can never be whole; false if that fails. */
  async #removeRefused(slot: OpenSlot, fileId: string): Promise<boolean> {
    const { partials, requests, onError } = this.#parts;
    try {
      await requests.closing.runUntil(undefined, (ending) => partials.remove(slot, fileId, ending));
      return true;
    } catch (error) {
      onError(error);
      return false;
    }
  }
}

/** Keeps what came. If storage is stuck, gives up 8 s after another request has asked for the file. */
async function keepInTime(file: PartialFile, { signal }: LockLease): Promise<number> {
  let cancel: (() => void) | undefined;
  let removeListener: (() => void) | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    removeListener = onAbort(signal, (reason) => {
      cancel = systemClock.schedule(() => reject(reason), longestKeepMs);
    });
  });
  try {
    return await Promise.race([file.keep(), late]);
  } finally {
    cancel?.();
    removeListener?.();
  }
}

function wholeProgress(record: FileRecord): FileProgress {
  const { fileId, size } = record;
  return { fileId, offset: size, length: size, record };
}

/** The length that a request says or implies (§4.1.3); throws if it says two, or not the known one. */
function lengthOf(facts: RequestFacts, offset: number, knownLength?: number): number | undefined {
  const implied =
    facts.complete && facts.contentLength !== undefined ? offset + facts.contentLength : undefined;
  const lengths = [implied, facts.length, knownLength].filter((length) => length !== undefined);
  if (lengths.some((length) => length !== lengths[0])) throw inconsistent();
  return lengths[0];
}

function inconsistent() {
  return uploadError("invalid_argument", "the lengths in the headers do not agree");
}
