import type { Caller } from "@sluice/server";
import { tagOf, type Host } from "@sluice/server/internal";
import type { Fields } from "../elicitation/fields.ts";
import type { UploadPages } from "../page/upload-pages.ts";
import { userOf } from "../slots/slot-token.ts";
import { newId, type Slots } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import { awaitAnswer } from "./arrival.ts";
import type { FileRequest } from "./ask-for-files.ts";
import type { AnswerConfirmation, FilesOutcome } from "./confirm-answer.ts";
import { reserveQuestion } from "./reserve-question.ts";

/** A visitor of a page of the server, and what ends the wait for its answer. */
export interface VisitorCall {
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

/** An upload page that is open for a visitor. */
export interface VisitorPage<F extends Fields = Fields> {
  /** A secret: it is the permission to answer. */
  readonly url: string;
  /** Rejects with `timeout` when the time of the page is over, and with the reason of the signal. */
  readonly outcome: Promise<FilesOutcome<F>>;
}

/** Asks the visitor of a page of the server for files, without any tool. */
export type AskVisitor = <const F extends Fields>(
  request: Omit<FileRequest<F>, "uploadId" | "onProgress">,
  call: VisitorCall,
) => Promise<VisitorPage<F>>;

interface VisitorParts {
  readonly host: Host;
  readonly slots: Slots;
  readonly pages: UploadPages;
  readonly confirmation: AnswerConfirmation;
}

/** Opens the page; counts as a request. Rejects with `unauthenticated` for a visitor that gets none, and `throttled` for one beyond
 * its rate, or with too many open pages. */
export async function askVisitor<F extends Fields>(
  { host, slots, pages, confirmation }: VisitorParts,
  request: Omit<FileRequest<F>, "uploadId" | "onProgress">,
  { caller, signal }: VisitorCall,
): Promise<VisitorPage<F>> {
  const { principal: known, mayMint, owner } = await host.identify(caller);
  if (!mayMint) throw uploadError("unauthenticated", "the caller is not authenticated");
  await host.usage.admit(tagOf(known), "request");
  const principal = userOf(known);
  const reserved = await reserveQuestion(slots, { principal, owner }, { kind: "page" }, request);
  const { question, slots: expected, expiresAt } = reserved;
  const pageId = newId();
  const cancel = (): Promise<void> => confirmation.cancel(principal, { slots: expected, pageId });
  let url: string;
  try {
    url = await pages.pageUrl({ pageId, question, expiresAt, owner });
  } catch (error) {
    await cancel();
    throw error;
  }

  async function outcome(): Promise<FilesOutcome<F>> {
    let raw: unknown;
    try {
      raw = await awaitAnswer(pages, pageId, { waitMs: expiresAt - Date.now(), signal });
      if (raw === undefined) throw uploadError("timeout", "the user did not answer in time");
    } catch (error) {
      await cancel();
      throw error;
    }
    const call = { principal, fields: request.fields, ctx: { mcpReq: { signal } } };
    return confirmation.confirm(call, { expected, raw, isFromPage: true, pageId });
  }
  return { url, outcome: outcome() };
}
