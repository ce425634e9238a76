import {
  ProtocolError,
  ProtocolErrorCode,
  type Progress,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { ELICIT_METHOD, isInTime, systemClock } from "@sluice/core/internal";
import { z } from "zod/v4";
import type { UploadPages } from "../page/upload-pages.ts";
import { newId } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { ResultAsker } from "./ask-in-result.ts";
import type { BegunUpload, ReservedQuestion } from "./reserve-question.ts";
import type { AnswerConfirmation, AskingCall, FilesOutcome } from "./confirm-answer.ts";
import type { Fields } from "../elicitation/fields.ts";
import { awaitAnswer, isConsent } from "./arrival.ts";

// MCP 2025-11-25 and older: the server asks by a request of its own while the call of the tool stays open.

/** What of a call's time is left for its files once they are there. */
const takingMs = 10_000;

interface RawAnswer {
  readonly raw: unknown;
  readonly isFromPage: boolean;
}

interface SentQuestion {
  /** Of its page, where it has one. */
  readonly pageId?: string;
  /** What later calls know of it, where it is kept for them. */
  readonly open?: BegunUpload | undefined;
  /** `undefined`: none came while the call can wait. */
  readonly answer: Promise<RawAnswer | undefined>;
  /** What the client says of the files, however late. */
  readonly fromClient: Promise<unknown>;
}

interface SessionAskerParts {
  readonly confirmation: AnswerConfirmation;
  readonly inResult: Pick<ResultAsker, "begin" | "goOn">;
  readonly pages: UploadPages;
  readonly onError: (error: unknown) => void;
}

/** Asks clients within their sessions. A call with an `until` ends before its host gives up: then its model calls again. */
export class SessionAsker {
  readonly #parts: SessionAskerParts;

  constructor(parts: SessionAskerParts) {
    this.#parts = parts;
  }

  /** Sends the question to the client and waits for its answer. */
  ask<F extends Fields>(
    call: AskingCall<F>,
    reserved: ReservedQuestion,
    onProgress: ((progress: Progress) => void) | undefined,
  ): Promise<FilesOutcome<F>> {
    return this.#confirmAnswer(call, reserved, async () =>
      sendQuestion(call, reserved, onProgress),
    );
  }

  /** Sends the URL of an upload page to the client, and waits for an answer of the page or a refusal of the client. */
  askOnPage<F extends Fields>(
    call: AskingCall<F>,
    reserved: ReservedQuestion,
  ): Promise<FilesOutcome<F>> {
    return this.#confirmAnswer(call, reserved, () => this.#sendPage(call, reserved));
  }

  /** Asks, waits for an answer and confirms it; without one the slots are closed. */
  async #confirmAnswer<F extends Fields>(
    call: AskingCall<F>,
    reserved: ReservedQuestion,
    ask: () => Promise<SentQuestion>,
  ): Promise<FilesOutcome<F>> {
    const { confirmation, inResult } = this.#parts;
    const { slots, expiresAt } = reserved;
    let sentQuestion: SentQuestion | undefined;
    let givenAnswer: RawAnswer | undefined;
    try {
      sentQuestion = await ask();
      givenAnswer = await sentQuestion.answer;
      if (!givenAnswer) {
        if (call.until === undefined || Date.now() >= expiresAt) throw tooLate();
        const open =
          sentQuestion.open ?? (await inResult.begin(call, reserved, { isForPage: true }));
        return inResult.goOn(call, { open, reserved, answer: sentQuestion.fromClient });
      }
    } catch (error) {
      await confirmation.cancel(call.principal, { slots, pageId: sentQuestion?.pageId });
      call.ctx.mcpReq.signal.throwIfAborted();
      throw error;
    }
    return confirmation.confirm(call, {
      ...givenAnswer,
      expected: slots,
      pageId: sentQuestion.pageId,
    });
  }

  async #sendPage(call: AskingCall, reserved: ReservedQuestion): Promise<SentQuestion> {
    const { inResult, pages, onError } = this.#parts;
    const { ctx, owner, until } = call;
    const { question, expiresAt } = reserved;
    const open = until === undefined ? undefined : await inResult.begin(call, reserved);
    const pageId = open?.uploadId ?? newId();
    const url =
      open?.upload.pageUrl ?? (await pages.pageUrl({ pageId, question, expiresAt, owner }));
    const params = { mode: "url", message: question.message, url, elicitationId: pageId };
    const stop = new AbortController();
    const signal = AbortSignal.any([ctx.mcpReq.signal, stop.signal]);
    const waitMs = waitMsOf(call, reserved);
    const fromPage = awaitAnswer(pages, pageId, { waitMs, signal }).then((raw) => ({
      raw,
      isFromPage: true,
    }));
    // "accept" only says that the user agreed to open the page
    const refusal = send(ctx, params, { expiresAt }).then((raw) =>
      isConsent(raw) ? undefined : raw,
    );
    const fromClient = refusal.then((raw) =>
      raw === undefined ? fromPage : { raw, isFromPage: false },
    );
    // the MCP Inspector agrees when it hears that the page is done: neither is waited for alone
    const outcomes = [fromPage, fromClient];
    for (const outcome of outcomes) outcome.catch(() => {});
    async function answer(): Promise<RawAnswer | undefined> {
      const outcome = await Promise.race(outcomes).finally(() => stop.abort());
      if (!outcome.isFromPage) return outcome;
      if (outcome.raw === undefined) return undefined;
      await notifyComplete(ctx, pageId).catch(onError);
      return outcome;
    }
    return { pageId, open, answer: answer(), fromClient: refusal };
  }
}

/** How long a call waits for its answer. */
function waitMsOf({ until = Infinity }: AskingCall, { expiresAt }: ReservedQuestion): number {
  return Math.max(0, Math.min(expiresAt - Date.now(), until - takingMs - systemClock.now()));
}

/** Asks a client that sends the files itself. */
function sendQuestion(
  call: AskingCall,
  reserved: ReservedQuestion,
  onProgress: ((progress: Progress) => void) | undefined,
): SentQuestion {
  const { ctx, until } = call;
  const { question, expiresAt } = reserved;
  const fromClient = send(ctx, question, { expiresAt, onProgress: onProgress ?? (() => {}) });
  const answered = fromClient.catch(() => {});
  async function answer(): Promise<RawAnswer | undefined> {
    const { signal } = ctx.mcpReq;
    const isLate =
      until !== undefined && !(await isInTime(answered, waitMsOf(call, reserved), signal));
    signal.throwIfAborted();
    return isLate ? undefined : { raw: await fromClient, isFromPage: false };
  }
  return { answer: answer(), fromClient };
}

/** Tells a client that asked its user to open a page that this is done. */
export function notifyComplete({ mcpReq }: ServerContext, elicitationId: string): Promise<void> {
  return mcpReq.notify({
    method: "notifications/elicitation/complete",
    params: { elicitationId },
  });
}

/** How much longer than its time to be answered a question may take while its files are being sent. */
const sendingMs = 3_600_000;

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
      {
        timeout,
        maxTotalTimeout: timeout + sendingMs,
        signal: ctx.mcpReq.signal,
        ...(onProgress && { onprogress: onProgress, resetTimeoutOnProgress: true }),
      },
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
  const code = unsentCodes.find((known) => known === reason);
  if (code) return uploadError(code, unsent[code], { cause: error });
  return uploadError("protocol", "the client did not bring the file, or could not ask the user", {
    cause: error,
  });
}

const unsent = {
  no_space: "the server has no room for the file; its operator must make some",
  too_large: "the file is larger than the server takes; ask for a smaller one",
  unsupported: "the file is of a type that is not accepted; ask for one of another type",
  corrupt: "the file did not arrive as it was sent; ask for it again",
  invalid_argument:
    "the client's files do not fit the question: a required file or value is missing, or there are more than asked for",
} as const;
const unsentCodes = [
  "no_space",
  "too_large",
  "unsupported",
  "corrupt",
  "invalid_argument",
] as const;

/** True for the error of a client that knows no questions: a proxy that declares what the host behind it can do. */
export function passesNoQuestions(error: unknown): boolean {
  const cause: unknown = SluiceError.is(error) ? error.cause : undefined;
  return ProtocolError.isInstance(cause) && cause.code === methodNotFound;
}

const methodNotFound: number = ProtocolErrorCode.MethodNotFound;

function tooLate(): SluiceError {
  return uploadError("timeout", "the user did not answer in time; call the tool again");
}
