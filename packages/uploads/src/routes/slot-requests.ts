import { parseMediaType, PARTIAL_UPLOAD_TYPE } from "@sluice/core/internal";
import type { Reply } from "@sluice/server/internal";
import type { PlainRequest } from "@sluice/transport-http";
import type { PartialFiles } from "../resumable/partial-files.ts";
import type { ResumableUploads } from "../resumable/resumable-upload.ts";
import type { PresentedSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import type { StorageRoom } from "../limits/room.ts";
import { offsetReply, steppedReply, storedReply } from "./answers.ts";
import { receiveForm } from "../receive/form-upload.ts";
import type { ReceiverParts } from "../receive/body-reader.ts";
import { receiveFile } from "../receive/raw-upload.ts";
import {
  readFacts,
  type RequestFacts,
  wholeLength,
  type UploadRequest,
} from "../receive/request-facts.ts";
import { overviewOf } from "./overview.ts";
import { isTus, readTusFacts, refuseTusVersion, tusStepReply } from "./tus.ts";

/** A request of a sender that may use the slot. */
export interface SlotRequest {
  readonly request: PlainRequest;
  readonly slot: PresentedSlot;
  /** Absolute URL of the slot. */
  readonly slotUrl: string;
  readonly fileId: string | undefined;
  /** Name of the file, if the path has one. */
  readonly name: string | undefined;
  readonly signal: AbortSignal;
  /** Counts bytes that came, for the record of the request. */
  readonly onBytes: (count: number) => void;
}

/** Collaborators that receive files and report how far they are. */
export interface SlotServices extends ReceiverParts {
  readonly storage: UploadStorage;
  readonly partials: Pick<PartialFiles, "ensure">;
  readonly resumable: ResumableUploads;
  readonly room: StorageRoom;
}

/** Serves a request of a slot: checks the file id, enters the quota, and dispatches by method, path and headers. */
export async function serveSlot(services: SlotServices, slotRequest: SlotRequest): Promise<Reply> {
  const { partials, quota } = services;
  const { request, slot, fileId, signal, onBytes } = slotRequest;
  const versionRefusal = isTus(request) ? refuseTusVersion(request) : undefined;
  if (versionRefusal) return versionRefusal;
  const isBodyless = fileId === undefined ? request.method === "GET" : request.method !== "PATCH";
  // before the lock, whose next holder ends the current one: an invented id, or one of another slot, must not do that
  if (fileId !== undefined) await partials.ensure(slot, fileId, signal);
  const leave = await (isBodyless ? quota.enterBodyless(slot.owner) : quota.enter(slot.owner));
  try {
    if (isBodyless) return await serveBodyless(services, slotRequest);
    const { body } = request;
    const read = readFacts(request);
    const facts = { ...read, name: read.name ?? slotRequest.name };
    const upload = { slot, facts, body, signal, onBytes };
    const take = isTus(request) ? receiveTus : receive;
    return await take(services, slotRequest, upload);
  } finally {
    await leave();
  }
}

async function serveBodyless(
  services: SlotServices,
  { request, slot, fileId, signal }: SlotRequest,
): Promise<Reply> {
  if (fileId === undefined) return overviewOf(services, slot, signal);
  const { resumable } = services;
  if (request.method === "HEAD")
    return offsetReply(slot, await resumable.inspect(slot, fileId, signal));
  await resumable.cancel(slot, fileId, signal);
  return { status: 204, headers: ["Cache-Control", "no-store"] };
}

async function receive(
  services: SlotServices,
  { slotUrl, fileId, request }: SlotRequest,
  upload: UploadRequest,
): Promise<Reply> {
  const { resumable, room } = services;
  const { slot, facts } = upload;
  const { essence = "" } = parseMediaType(facts.contentType) ?? {};
  const isStep = essence === PARTIAL_UPLOAD_TYPE;
  if (fileId !== undefined) {
    if (!isStep) throw uploadError("unsupported", `a step has the type ${PARTIAL_UPLOAD_TYPE}`);
    if (facts.complete === undefined || facts.offset === undefined)
      throw uploadError(
        "invalid_argument",
        "a step needs the headers Upload-Offset and Upload-Complete",
      );
    return steppedReply(slot, await resumable.append(upload, fileId));
  }
  const isForm = essence.startsWith("multipart/");
  if (facts.complete !== undefined && !isForm) {
    // older drafts give the first bytes the type of a step, which is not that of the file
    const contentType = isStep ? undefined : facts.contentType;
    const complete = facts.complete || isEmptyOfOlderDraft(request, facts);
    const file = await resumable.begin({ ...upload, facts: { ...facts, contentType, complete } });
    return steppedReply(slot, file, `${slotUrl}/${file.fileId}`);
  }
  if (isForm && (request.method !== "POST" || facts.complete !== undefined))
    throw uploadError("unsupported", "a form is sent by POST and in one piece");
  const contentLength = wholeLength(request, facts);
  const whole = { ...upload, facts: { ...facts, contentLength } };
  const receiveWhole = isForm ? receiveForm : receiveFile;
  const records = await room.during(whole, contentLength, (bookedUpload) =>
    receiveWhole(services, bookedUpload),
  );
  return storedReply(slot.uploadId, records);
}

/** Clients of drafts 03 to 05, which are interop versions 5 and 6, begin an empty file and send no step of it. */
function isEmptyOfOlderDraft(request: PlainRequest, { length }: RequestFacts): boolean {
  return length === 0 && /^[56]$/.test(request.header("upload-draft-interop-version") ?? "");
}

async function receiveTus(
  { resumable }: SlotServices,
  { slotUrl, fileId, request }: SlotRequest,
  upload: UploadRequest,
): Promise<Reply> {
  const { slot } = upload;
  const tusUpload = { ...upload, facts: readTusFacts(request, upload.facts) };
  if (fileId !== undefined) return tusStepReply(slot, await resumable.append(tusUpload, fileId));
  const file = await resumable.begin(tusUpload);
  return tusStepReply(slot, file, `${slotUrl}/${file.fileId}`);
}
