import { PARTIAL_UPLOAD_TYPE } from "@sluice/core/wire";
import type { Reply } from "@sluice/server/transport";
import type { PlainRequest } from "@sluice/transport-http";
import { offsetReply, steppedReply, storedReply } from "./answers.ts";
import type { ReceiveFiles } from "./raw-upload.ts";
import { readFacts, type RequestFacts, type UploadRequest } from "./request-facts.ts";
import type { FileProgress, ResumableReceiver } from "../resumable/resumable-upload.ts";
import type { QuotaTracker } from "../quota/quota-tracker.ts";
import type { PresentedSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";

/** A request of the holder of a slot. */
export interface SlotRequest {
  readonly request: PlainRequest;
  readonly slot: PresentedSlot;
  /** Absolute URL of the slot. */
  readonly slotUrl: string;
  readonly fileId: string | undefined;
  readonly signal: AbortSignal;
  /** Counts bytes that came, for the record of the request. */
  readonly onBytes: (count: number) => void;
}

/** What a request about files asks for. */
export interface SlotLookups {
  /** How far the upload is. */
  overview(slot: PresentedSlot, signal: AbortSignal): Promise<Reply>;
  /** Rejects with `not_found` when the slot has no file of that id. */
  ensureFile(slot: PresentedSlot, fileId: string, signal: AbortSignal): Promise<void>;
  inspect(slot: PresentedSlot, fileId: string, signal: AbortSignal): Promise<FileProgress>;
  cancel(slot: PresentedSlot, fileId: string, signal: AbortSignal): Promise<void>;
}

/** Chooses by method, path and headers what takes a request. */
export function createSlotRequests({
  quota,
  lookups,
  receivers,
}: {
  readonly quota: QuotaTracker;
  readonly lookups: SlotLookups;
  readonly receivers: {
    readonly raw: ReceiveFiles;
    readonly form: ReceiveFiles;
    readonly resumable: ResumableReceiver;
  };
}): (visit: SlotRequest) => Promise<Reply> {
  async function look({ request, slot, fileId, signal }: SlotRequest): Promise<Reply> {
    if (fileId === undefined) return lookups.overview(slot, signal);
    if (request.method === "HEAD")
      return offsetReply(slot, await lookups.inspect(slot, fileId, signal));
    await lookups.cancel(slot, fileId, signal);
    return { status: 204, headers: ["Cache-Control", "no-store"] };
  }

  async function receive({ slotUrl, fileId, request }: SlotRequest, upload: UploadRequest) {
    const { slot, facts } = upload;
    if (fileId !== undefined) {
      if (!isPartial(facts))
        throw uploadError("unsupported", `a step has the type ${PARTIAL_UPLOAD_TYPE}`);
      const file = await receivers.resumable.append(upload, fileId);
      return steppedReply(slot, file, { location: `${slotUrl}/${fileId}`, isNew: false });
    }
    const isForm = /^multipart\//i.test(facts.contentType ?? "");
    if (facts.complete !== undefined && !isForm) {
      const file = await receivers.resumable.begin(upload);
      return steppedReply(slot, file, { location: `${slotUrl}/${file.fileId}`, isNew: true });
    }
    if (!isForm) return storedReply(slot.uploadId, await receivers.raw(upload));
    if (request.method !== "POST" || facts.complete !== undefined)
      throw uploadError("unsupported", "a form is sent by POST and in one piece");
    return storedReply(slot.uploadId, await receivers.form(upload));
  }

  return async (visit) => {
    const { request, slot, fileId, signal, onBytes } = visit;
    const isLook = fileId === undefined ? request.method === "GET" : request.method !== "PATCH";
    // before the file's lock is taken: an id that is made up, or of another slot, ends no request
    if (fileId !== undefined) await lookups.ensureFile(slot, fileId, signal);
    const leave = await (isLook ? quota.ask(slot.owner) : quota.enter(slot.owner));
    try {
      if (isLook) return await look(visit);
      const { body } = request;
      return await receive(visit, { slot, facts: readFacts(request), body, signal, onBytes });
    } finally {
      await leave();
    }
  };
}

function isPartial({ contentType }: RequestFacts): boolean {
  return contentType?.split(";")[0]?.trim().toLowerCase() === PARTIAL_UPLOAD_TYPE;
}
