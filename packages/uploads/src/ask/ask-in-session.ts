import {
  ProtocolError,
  ProtocolErrorCode,
  type Progress,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { ELICIT_METHOD } from "@sluice/core/wire";
import { z } from "zod/v4";
import type { UploadPages } from "../page/upload-pages.ts";
import { newId } from "../slots/random-id.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { AnswerConfirmation, AskingCall, FilesOutcome } from "./confirm-answer.ts";
import type { Fields } from "./elicit-fields.ts";
import { awaitAnswer, isConsent } from "./elicit-page.ts";
import type { ReservedQuestion } from "./reserve-question.ts";

// MCP 2025-11-25 and older: the server asks by a request of its own while the call of the tool stays open.

/** Asks clients within their sessions. */
export interface SessionAsker {
  /** Sends the question to the client and waits for its answer. */
  ask<F extends Fields>(
    call: AskingCall<F>,
    reserved: ReservedQuestion,
    onProgress: ((progress: Progress) => void) | undefined,
  ): Promise<FilesOutcome<F>>;
  /** Sends the URL of an upload page to the client, and waits for an answer of the page or a refusal of the client. */
  askOnPage<F extends Fields>(
    call: AskingCall<F>,
    reserved: ReservedQuestion,
  ): Promise<FilesOutcome<F>>;
}

interface RawAnswer {
  readonly raw: unknown;
  readonly isFromPage: boolean;
}

/** Makes the asker of one server. */
export function createSessionAsker({
  confirmation,
  pages,
  onError,
}: {
  readonly confirmation: AnswerConfirmation;
  readonly pages: UploadPages;
  readonly onError: (error: unknown) => void;
}): SessionAsker {
  /** Waits for an answer and confirms it; without one the slots are closed. */
  async function confirmAnswer<F extends Fields>(
    call: AskingCall<F>,
    { slots }: ReservedQuestion,
    { answer, pageId }: { readonly answer: Promise<RawAnswer>; readonly pageId?: string },
  ): Promise<FilesOutcome<F>> {
    let given: RawAnswer;
    try {
      given = await answer;
    } catch (error) {
      await confirmation.cancel(call.principal, { slots, pageId });
      call.ctx.mcpReq.signal.throwIfAborted();
      throw error;
    }
    return confirmation.confirm(call, { ...given, expected: slots, pageId });
  }

  async function answerOnPage(
    { ctx, owner }: AskingCall,
    { question, expiresAt }: ReservedQuestion,
    pageId: string,
  ): Promise<RawAnswer> {
    const url = await pages.pageUrl({ pageId, question, expiresAt, owner });
    const params = { mode: "url", message: question.message, url, elicitationId: pageId };
    const stop = new AbortController();
    const signal = AbortSignal.any([ctx.mcpReq.signal, stop.signal]);
    const fromPage = awaitAnswer(pages, pageId, { waitMs: expiresAt - Date.now(), signal }).then(
      (raw) => ({ raw, isFromPage: true }),
    );
    // "accept" only says that the user agreed to open the page
    const fromClient = send(ctx, params, { expiresAt }).then((given) =>
      isConsent(given) ? fromPage : { raw: given, isFromPage: false },
    );
    // the MCP Inspector agrees when it hears that the page is done: neither is waited for alone
    const outcomes = [fromPage, fromClient];
    for (const outcome of outcomes) outcome.catch(() => {});
    const outcome = await Promise.race(outcomes).finally(() => stop.abort());
    if (!outcome.isFromPage) return outcome;
    if (outcome.raw === undefined) throw tooLate();
    await ctx.mcpReq
      .notify({ method: "notifications/elicitation/complete", params: { elicitationId: pageId } })
      .catch(onError);
    return outcome;
  }

  return {
    ask(call, reserved, onProgress) {
      const { question, expiresAt } = reserved;
      const answer = send(call.ctx, question, { expiresAt, onProgress }).then((raw) => ({
        raw,
        isFromPage: false,
      }));
      return confirmAnswer(call, reserved, { answer });
    },
    askOnPage(call, reserved) {
      const pageId = newId();
      return confirmAnswer(call, reserved, {
        answer: answerOnPage(call, reserved, pageId),
        pageId,
      });
    },
  };
}

/** Sends a request to the client, which may take as long as the question is good. */
async function send(
  ctx: ServerContext,
  params: object,
  {
    expiresAt,
    onProgress,
  }: {
    readonly expiresAt: number;
    readonly onProgress?: ((progress: Progress) => void) | undefined;
  },
): Promise<unknown> {
  const timeout = Math.max(1, expiresAt - Date.now());
  try {
    return await ctx.mcpReq.send(
      { method: ELICIT_METHOD, params: { ...params } },
      z.looseObject({}),
      { timeout, signal: ctx.mcpReq.signal, ...(onProgress && { onprogress: onProgress }) },
    );
  } catch (error) {
    ctx.mcpReq.signal.throwIfAborted();
    if (Date.now() >= expiresAt) throw tooLate();
    throw unanswered(error);
  }
}

/** What a client that answers with an error says of the files: its own words stay in the log. */
function unanswered(error: unknown): SluiceError {
  const { reason } = ((error as { data?: unknown }).data ?? {}) as { reason?: unknown };
  if (reason === "no_space" || reason === "too_large")
    return uploadError(reason, unsent[reason], { cause: error });
  return uploadError("protocol", "the client did not bring the file, or could not ask the user", {
    cause: error,
  });
}

const unsent = {
  no_space: "the server has no room for the file; its operator must make some",
  too_large: "the file is larger than the server takes; ask for a smaller one",
} as const;

/** True for the error of a client that knows no questions: a proxy that declares what the host behind it can do. */
export function passesNoQuestions(error: unknown): boolean {
  const cause: unknown = SluiceError.is(error) ? error.cause : undefined;
  return ProtocolError.isInstance(cause) && cause.code === methodNotFound;
}

const methodNotFound: number = ProtocolErrorCode.MethodNotFound;

function tooLate(): SluiceError {
  return uploadError("timeout", "the user did not answer in time; call the tool again");
}
