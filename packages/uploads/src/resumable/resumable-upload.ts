import { definedMembers } from "@sluice/core";
import type { PartialFile, PartialFiles } from "./partial-files.ts";
import { ensureSize } from "../receive/raw-upload.ts";
import { digestOfWhole, type RequestFacts, type UploadRequest } from "../receive/request-facts.ts";
import type { ReceiveStep } from "./receive-step.ts";
import type { LockLease, WriteLock } from "./write-lock.ts";
import type { QuotaTracker } from "../quota/quota-tracker.ts";
import { newId } from "../slots/random-id.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { FileRecord } from "../store/records.ts";
import type { SlotFiles } from "../store/slot-files.ts";

// Uploads in steps, as draft-ietf-httpbis-resumable-upload describes them.

/** How far a file is. */
export interface FileProgress {
  readonly fileId: string;
  readonly offset: number;
  /** Bytes of the whole, where they are known. */
  readonly length?: number | undefined;
  /** The whole file, once it is a file of the slot. */
  readonly record?: FileRecord;
}

/** How far a whole file is. */
export function wholeProgress(fileId: string, record: FileRecord): FileProgress {
  return { fileId, offset: record.size, length: record.size, record };
}

/** Files of a slot that were begun and left, beside as many as it takes. */
const spareFiles = 4;

/** Takes files in steps. */
export interface ResumableReceiver {
  /** Begins a file, with its first bytes or without any (§4.2). */
  begin(request: UploadRequest): Promise<FileProgress>;
  /** Goes on with a file (§4.4). */
  append(request: UploadRequest, fileId: string): Promise<FileProgress>;
}

/** Makes the receiver of one endpoint. `removeRefused` removes a file, and says whether it could. */
export function createResumableReceiver({
  files,
  partials,
  quota,
  lock,
  receiveStep,
  removeRefused,
}: {
  readonly files: Pick<SlotFiles, "stateOf">;
  readonly partials: PartialFiles;
  readonly quota: QuotaTracker;
  readonly lock: WriteLock;
  readonly receiveStep: ReceiveStep;
  readonly removeRefused: (slot: UploadRequest["slot"], fileId: string) => Promise<boolean>;
}): ResumableReceiver {
  /** Works on a file while no other request does. */
  async function withLease(
    request: UploadRequest,
    fileId: string,
    work: (request: UploadRequest, lease: LockLease) => Promise<FileProgress>,
  ): Promise<FileProgress> {
    const lease = await lock.acquire(fileId, request.signal);
    try {
      const signal = AbortSignal.any([request.signal, lease.signal]);
      return await work({ ...request, signal }, lease);
    } finally {
      await lease.release();
    }
  }

  /** Takes one step of a file that the quota has been asked for, and makes the file whole after the last one. */
  async function receive(
    request: UploadRequest,
    before: PartialFile,
    { length, lease }: { readonly length: number | undefined; readonly lease: LockLease },
  ): Promise<FileProgress> {
    const { slot, facts, signal } = request;
    const { fileId } = before;
    let isHeld = true;
    try {
      const after = await receiveStep(request, before, { length, lease });
      if (!facts.complete) return { fileId, offset: after.offset, length };
      if (length !== undefined && after.offset !== length) throw inconsistent();
      const record = await partials.assemble(slot, after, { lease, signal });
      isHeld = false;
      return wholeProgress(fileId, record);
    } catch (error) {
      // a newer request has it otherwise, and judges for itself
      if (error instanceof RefusedFile && !lease.signal.aborted)
        isHeld = !(await removeRefused(slot, fileId));
      throw error;
    } finally {
      // from the next sweep on it counts as what storage shows of it
      if (isHeld) await quota.settle(slot.owner, fileId, length ?? slot.terms.maxBytes);
    }
  }

  return {
    async begin(request) {
      const { slot, facts } = request;
      const { terms, owner } = slot;
      const length = lengthOf(facts, 0);
      ensureSize(length ?? facts.contentLength, terms.maxBytes);
      const { unfinished, places } = await files.stateOf(slot, request.signal);
      if (unfinished.size + places.length >= terms.maxFiles + spareFiles)
        throw uploadError("already_exists", "too many files were begun here");
      const fileId = newId();
      const { name, contentType: declaredType } = facts;
      const sha256 = facts.complete ? digestOfWhole(facts) : facts.sha256;
      const plan = definedMembers({ name, declaredType, length, sha256 });
      // before the plan, which shows the file to other requests
      return withLease(request, fileId, async (leased, lease) => {
        await quota.hold(owner, fileId, length ?? terms.maxBytes);
        try {
          await partials.begin(slot, fileId, plan, leased.signal);
        } catch (error) {
          await quota.drop(owner, fileId);
          throw error;
        }
        return receive(leased, { fileId, plan, offset: 0, parts: [] }, { length, lease });
      });
    },

    async append(request, fileId) {
      const { slot, facts } = request;
      const { complete, offset } = facts;
      if (complete === undefined || offset === undefined)
        throw uploadError("invalid_argument", "a step says Upload-Offset and Upload-Complete");
      return withLease(request, fileId, async (leased, lease) => {
        const { file } = await partials.find(slot, fileId, leased.signal);
        if ("record" in file) throw uploadError("already_exists", "this file is complete");
        if (file.offset !== offset)
          throw uploadError(
            "precondition_failed",
            `the file goes on at byte ${file.offset}, not at ${offset}`,
            { size: file.offset },
          );
        const length = lengthOf(facts, file.offset, file.plan.length);
        // another process may have begun it, or this one before it was started again
        await quota.hold(slot.owner, fileId, length ?? slot.terms.maxBytes);
        return receive(leased, file, { length, lease });
      });
    },
  };
}

/** The length that a request says or implies (§4.1.3); throws when it says two, or another than before. */
function lengthOf(facts: RequestFacts, offset: number, before?: number): number | undefined {
  const implied =
    facts.complete && facts.contentLength !== undefined ? offset + facts.contentLength : undefined;
  const said = [implied, facts.length, before].filter((length) => length !== undefined);
  if (said.some((length) => length !== said[0])) throw inconsistent();
  return said[0];
}

function inconsistent() {
  return uploadError("invalid_argument", "the lengths that were said do not agree");
}
