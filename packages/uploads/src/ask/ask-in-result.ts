import type { CallToolResult } from "@modelcontextprotocol/server";
import { sleep, systemClock } from "@sluice/core/internal";
import { unlessMissing } from "@sluice/storage/plugin";
import type { Host } from "@sluice/server/internal";
import { z } from "zod/v4";
import type { GivenAnswer, UnansweredPage, UploadPages } from "../page/upload-pages.ts";
import { type ClaimedFile, newId, type Slots, type UploadedFile } from "../slots/slots.ts";
import { awaitArrival } from "./arrival.ts";
import type { AnswerConfirmation, AskingCall, FilesOutcome } from "./confirm-answer.ts";
import {
  fileFieldsOf,
  type AnsweredFiles,
  type AnsweredValues,
  type FileField,
  type Fields,
} from "../elicitation/fields.ts";
import { beginUpload, type BegunUpload, type ReservedQuestion } from "./reserve-question.ts";
import { unknownUpload, type PendingUploads, type UploadOutcome } from "./pending-uploads.ts";
import { uploadRequired, type UploadStage } from "./upload-required.ts";

// For hosts without elicitation: the tool's own answer asks, and the model calls the tool again.

/** How long a repeated call waits: some hosts give up on a call after 30 s. */
const arrivalWaitMs = 20_000;
/** How long files may take to be confirmed, also when the call is given up. */
const confirmMs = 60_000;
/** How often a repeated call looks for the answer of the one before. */
const repeatEveryMs = 200;

interface AskResult {
  readonly action: "ask";
  readonly result: CallToolResult;
}

interface ResultParts {
  readonly host: Pick<Host, "tokens" | "onError">;
  readonly confirmation: AnswerConfirmation;
  readonly pending: PendingUploads;
  readonly pages: UploadPages;
  readonly slots: Pick<Slots, "received" | "reopen">;
  readonly takeAnswer: (page: UnansweredPage, given: GivenAnswer) => Promise<void>;
}

/** Asks by the tool's answer. */
export class ResultAsker {
  readonly #parts: ResultParts;

  constructor(parts: ResultParts) {
    this.#parts = parts;
  }

  /** Ends the call with an answer that asks for the files. */
  async ask(call: AskingCall, reserved: ReservedQuestion): Promise<AskResult> {
    return this.#askAgain(call, await this.begin(call, reserved), "asked");
  }

  /** Makes the page of a question that a client is also asked, and keeps it for calls that come later. */
  begin(
    call: AskingCall,
    reserved: ReservedQuestion,
    options?: { readonly isForPage?: boolean },
  ): Promise<BegunUpload> {
    return beginUpload(this.#parts, reserved, call, options);
  }

  /** Ends a call whose client has not answered yet. A late answer counts like one of the page; a dialog that closes by itself does not count. */
  goOn(
    call: AskingCall,
    {
      open,
      reserved,
      answer,
    }: {
      readonly open: BegunUpload;
      readonly reserved: ReservedQuestion;
      readonly answer: Promise<unknown>;
    },
  ): AskResult {
    const { takeAnswer, host } = this.#parts;
    const { question, expiresAt } = reserved;
    const owner = call.owner ?? "";
    const page = { phase: "open", pageId: open.uploadId, question, expiresAt, owner } as const;
    const late = answer
      // without one there is still the page
      .catch(() => undefined)
      .then((raw) => {
        const givenAnswer = lateAnswer.safeParse(raw).data;
        return givenAnswer && takeAnswer(page, { answerId: newId(), ...givenAnswer });
      });
    late.catch(host.onError);
    return this.#askAgain(call, open, "waiting");
  }

  /** Takes up the call that names the upload. Rejects with `not_found` for an upload that is not of this call. */
  async takeUp<F extends Fields>(call: AskingCall<F>, uploadId: string): Promise<FilesOutcome<F>> {
    const { host, confirmation, pending, pages } = this.#parts;
    const { ctx, fields, principal } = call;
    const { signal } = ctx.mcpReq;
    const upload = await pending.find(uploadId, call);
    const awaited = {
      principal,
      pageId: uploadId,
      slotIds: Object.values(upload.slots).map((slot) => slot.uploadId),
      takesSent: upload.uploadUrl !== undefined,
      signal,
    };
    const waitMs = Math.max(0, Math.min(arrivalWaitMs, upload.expiresAt - Date.now()));
    const arrival = await awaitArrival(this.#parts, awaited, waitMs);
    if (arrival.kind === "waiting") return this.#askAgain(call, { uploadId, upload }, arrival);
    // one of all calls that see the same files confirms them; hosts repeat calls that take long
    if (!(await pending.take(uploadId, upload, call)))
      return this.#repeat(call, { uploadId, upload });
    let outcome: FilesOutcome<typeof fields> | undefined;
    // a host that gives a slow call up repeats it: the files stay for that one
    const ends = AbortSignal.timeout(confirmMs);
    const lasting = { ...call, ctx: { ...ctx, mcpReq: { ...ctx.mcpReq, signal: ends } } };
    try {
      if (arrival.kind === "over") throw unknownUpload();
      const expected = new Map(Object.entries(upload.slots));
      const raw =
        arrival.kind === "answered"
          ? await pages.answerOf(uploadId)
          : answerWith(fields, uploadId, arrival.files);
      const answer = { expected, raw, isFromPage: true, pageId: uploadId };
      outcome = await confirmation.confirm(lasting, answer);
    } finally {
      await pending
        .settle(uploadId, { upload, outcome: keptOutcome(outcome) }, call)
        .catch(host.onError);
    }
    signal.throwIfAborted();
    return outcome;
  }

  #askAgain({ message, isInApp }: AskingCall, open: BegunUpload, stage: UploadStage): AskResult {
    const { uploadId, upload } = open;
    const repeat = `again with the same arguments and upload_id "${uploadId}".`;
    const app = isInApp
      ? {
          url: this.#parts.pages.urlOf(uploadId, upload.expiresAt, "app"),
          message: `I have sent the files. Please call the tool ${repeat}`,
        }
      : undefined;
    const next = `Then call this tool ${repeat}`;
    return { action: "ask", result: uploadRequired({ ...open, message, stage, next, app }) };
  }

  /** The answer of the call that took the upload up, while its tool has not removed the files. */
  async #repeat<F extends Fields>(
    call: AskingCall<F>,
    { uploadId, upload }: BegunUpload,
  ): Promise<FilesOutcome<F>> {
    const { pending, slots } = this.#parts;
    const { ctx, fields, principal } = call;
    const { signal } = ctx.mcpReq;
    // that call may confirm for as long
    const until = systemClock.now() + confirmMs;
    let outcome = await pending.outcomeOf(uploadId, call);
    for (; !outcome && systemClock.now() < until; outcome = await pending.outcomeOf(uploadId, call))
      await sleep(repeatEveryMs, signal);
    if (!outcome || outcome.action === "failed") throw unknownUpload();
    if (outcome.action !== "accept") return { action: outcome.action };
    const files: Record<string, UploadedFile | readonly UploadedFile[] | undefined> = {};
    for (const [name, { multiple }] of fileFieldsOf(fields)) {
      const slot = outcome.fields.includes(name) ? upload.slots[name] : undefined;
      const reopened =
        slot && (await unlessMissing(slots.reopen(principal, slot.uploadId, { signal })));
      if (slot && !reopened) throw unknownUpload();
      files[name] = multiple ? (reopened ?? []) : reopened?.[0];
    }
    return {
      action: "accept",
      files: files as AnsweredFiles<F>,
      values: outcome.values as AnsweredValues<F>,
    };
  }
}

/** A dialog that is closed with its call says `cancel`: the user has the page. */
const lateAnswer = z.object({
  action: z.enum(["accept", "decline"]),
  content: z.record(z.string(), z.unknown()).default({}),
});

/** What of an outcome makes it again: files lie in storage. */
function keptOutcome(outcome: FilesOutcome | undefined): UploadOutcome {
  if (outcome?.action !== "accept")
    return {
      action:
        outcome?.action === "decline" || outcome?.action === "cancel" ? outcome.action : "failed",
    };
  const fields = Object.entries<unknown>(outcome.files)
    .filter(([, files]) => (Array.isArray(files) ? files.length > 0 : files !== undefined))
    .map(([name]) => name);
  return { action: "accept", fields, values: outcome.values };
}

/** Files that came to the upload URL, as a page would name them. */
function answerWith(fields: Fields, uploadId: string, files: readonly ClaimedFile[]): object {
  const [[name, { multiple }]] = fileFieldsOf(fields) as [[string, FileField]];
  const namedFiles = files.map((file) => ({ ...file, uploadId }));
  return { action: "accept", content: { [name]: multiple ? namedFiles : namedFiles[0] } };
}
