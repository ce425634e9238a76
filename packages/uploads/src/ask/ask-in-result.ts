import type { CallToolResult } from "@modelcontextprotocol/server";
import type { Host } from "@sluice/server/transport";
import type { UploadPages } from "../page/upload-pages.ts";
import type { ClaimedFile, Slots } from "../slots/slots.ts";
import { awaitArrival } from "./arrival.ts";
import type { AnswerConfirmation, AskingCall, FilesOutcome } from "./confirm-answer.ts";
import { fileFieldsOf, type FileField, type Fields } from "./elicit-fields.ts";
import { beginUpload, type BegunUpload } from "./begin-upload.ts";
import { unknownUpload, type PendingUploads } from "./pending-uploads.ts";
import type { ReservedQuestion } from "./reserve-question.ts";
import { uploadRequired, type UploadStage } from "./upload-required.ts";

// For hosts that can be asked nothing: the tool's own answer asks, and the model calls the tool again.

/** How long a repeated call waits: some hosts give up on a call after 30 s. */
const arrivalWaitMs = 20_000;

interface AskResult {
  readonly action: "ask";
  readonly result: CallToolResult;
}

/** Asks by the tool's answer. */
export interface ResultAsker {
  /** Ends the call with an answer that asks for the files. */
  ask(call: AskingCall, reserved: ReservedQuestion): Promise<AskResult>;
  /** Takes up the call that names the upload. Rejects with `not_found` for an upload that is not of this call. */
  takeUp<F extends Fields>(call: AskingCall<F>, uploadId: string): Promise<FilesOutcome<F>>;
}

/** Makes the asker of one server. */
export function createResultAsker({
  host,
  confirmation,
  pending,
  pages,
  slots,
}: {
  readonly host: Pick<Host, "tokens">;
  readonly confirmation: AnswerConfirmation;
  readonly pending: PendingUploads;
  readonly pages: UploadPages;
  readonly slots: Pick<Slots, "received">;
}): ResultAsker {
  return {
    async ask(call, reserved) {
      return askAgain(call, await beginUpload({ host, pages, pending }, reserved, call), "asked");
    },

    async takeUp(call, uploadId) {
      const { ctx, fields, principal } = call;
      const { signal } = ctx.mcpReq;
      const upload = await pending.find(uploadId, call);
      const awaited = {
        principal,
        pageId: uploadId,
        slotId: upload.uploadUrl === undefined ? undefined : uploadId,
        signal,
      };
      const waitMs = Math.max(0, Math.min(arrivalWaitMs, upload.expiresAt - Date.now()));
      const arrival = await awaitArrival({ pages, slots }, awaited, waitMs);
      if (arrival.kind === "nothing" || arrival.kind === "undone")
        return askAgain(call, { uploadId, upload }, arrival.kind);
      // of two calls that see the same files one goes on
      if (arrival.kind === "over" || !(await pending.take(uploadId))) throw unknownUpload();
      const expected = new Map(Object.entries(upload.slots));
      const raw =
        arrival.kind === "answered"
          ? await pages.answerOf(uploadId)
          : answerWith(fields, uploadId, arrival.files);
      return confirmation.confirm(call, { expected, raw, isFromPage: true, pageId: uploadId });
    },
  };
}

/** Files that came to the upload URL, as a page would name them. */
function answerWith(fields: Fields, uploadId: string, files: readonly ClaimedFile[]): object {
  const [[name, { multiple }]] = fileFieldsOf(fields) as [[string, FileField]];
  const named = files.map((file) => ({ ...file, uploadId }));
  return { action: "accept", content: { [name]: multiple ? named : named[0] } };
}

function askAgain({ message }: AskingCall, open: BegunUpload, stage: UploadStage): AskResult {
  const next = `Then call this tool again with the same arguments and upload_id "${open.uploadId}".`;
  return { action: "ask", result: uploadRequired({ ...open, message, stage, next }) };
}
