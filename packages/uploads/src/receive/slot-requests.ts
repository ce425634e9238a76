import { parseMediaType } from "@sluice/core";
import { PARTIAL_UPLOAD_TYPE } from "@sluice/core/wire";
import type { Reply } from "@sluice/server/transport";
import type { PlainRequest } from "@sluice/transport-http";
import type { QuotaTracker } from "../quota/quota-tracker.ts";
import type { PartialFiles } from "../resumable/partial-files.ts";
import type { ResumableUploads } from "../resumable/resumable-upload.ts";
import type { PresentedSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import { offsetReply, steppedReply, storedReply } from "./answers.ts";
import type { ReceiveFiles } from "./raw-upload.ts";
import { readFacts, type UploadRequest } from "./request-facts.ts";

/** A request that may use a slot. */
export interface SlotRequest {
  readonly request: PlainRequest;
  readonly slot: PresentedSlot;
  /** Absolute URL of the slot. */
  readonly slotUrl: string;
  readonly fileId: string | undefined;
  /** Name of the file, where the path has one. */
  readonly name: string | undefined;
  readonly signal: AbortSignal;
  /** Counts bytes that came, for the record of the request. */
  readonly onBytes: (count: number) => void;
}

/** Chooses by method, path and headers what takes a request. */
export function createSlotRequests({
  quota,
  partials,
  overview,
  raw,
  form,
  resumable,
}: {
  readonly quota: QuotaTracker;
  readonly partials: Pick<PartialFiles, "ensure">;
  /** Says how far the upload is. */
  readonly overview: (slot: PresentedSlot, signal: AbortSignal) => Promise<Reply>;
  readonly raw: ReceiveFiles;
  readonly form: ReceiveFiles;
  readonly resumable: ResumableUploads;
}): (asked: SlotRequest) => Promise<Reply> {
  async function look({ request, slot, fileId, signal }: SlotRequest): Promise<Reply> {
    if (fileId === undefined) return overview(slot, signal);
    if (request.method === "HEAD")
      return offsetReply(slot, await resumable.inspect(slot, fileId, signal));
    await resumable.cancel(slot, fileId, signal);
    return { status: 204, headers: ["Cache-Control", "no-store"] };
  }

  async function receive({ slotUrl, fileId, request }: SlotRequest, upload: UploadRequest) {
    const { slot, facts } = upload;
    const { essence = "" } = parseMediaType(facts.contentType) ?? {};
    if (fileId !== undefined) {
      if (essence !== PARTIAL_UPLOAD_TYPE)
        throw uploadError("unsupported", `a step has the type ${PARTIAL_UPLOAD_TYPE}`);
      const file = await resumable.append(upload, fileId);
      return steppedReply(slot, file);
    }
    const isForm = essence.startsWith("multipart/");
    if (facts.complete !== undefined && !isForm) {
      const file = await resumable.begin(upload);
      return steppedReply(slot, file, `${slotUrl}/${file.fileId}`);
    }
    if (!isForm) return storedReply(slot.uploadId, await raw(upload));
    if (request.method !== "POST" || facts.complete !== undefined)
      throw uploadError("unsupported", "a form is sent by POST and in one piece");
    return storedReply(slot.uploadId, await form(upload));
  }

  return async (asked) => {
    const { request, slot, fileId, signal, onBytes } = asked;
    const isLook = fileId === undefined ? request.method === "GET" : request.method !== "PATCH";
    // before the file's lock is taken: an id that is made up, or of another slot, ends no request
    if (fileId !== undefined) await partials.ensure(slot, fileId, signal);
    const leave = await (isLook ? quota.ask(slot.owner) : quota.enter(slot.owner));
    try {
      if (isLook) return await look(asked);
      const { body } = request;
      const read = readFacts(request);
      const facts = { ...read, name: read.name ?? asked.name };
      return await receive(asked, { slot, facts, body, signal, onBytes });
    } finally {
      await leave();
    }
  };
}
