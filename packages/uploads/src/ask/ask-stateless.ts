import {
  inputRequired,
  ProtocolError,
  ProtocolErrorCode,
  type InputRequest,
  type InputRequiredResult,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { ELICIT_METHOD } from "@sluice/core/wire";
import type { AnswerConfirmation, AskingCall, FilesOutcome } from "./confirm-answer.ts";
import { fileFieldsOf, termsOf, type Fields } from "./elicit-fields.ts";
import { awaitAnswer, isConsent } from "./elicit-page.ts";
import type { QuestionState, QuestionStates } from "./elicit-state.ts";
import { letBinaryPass, type AskingWay } from "./elicit-way.ts";
import type { ReservedQuestion } from "./reserve-question.ts";
import type { UploadPages } from "../page/upload-pages.ts";
import { newId } from "../slots/random-id.ts";

// MCP 2026-07-28: the call ends with the question, and the client repeats it with the answer and the sealed state.

/** The only question of its call. */
const inputKey = "files";
/** How long a repeated call waits for the page: clients give up on a request after 60 s. */
const pageWaitMs = 45_000;

interface AskResult {
  readonly action: "ask";
  readonly result: InputRequiredResult;
}

/** Ends the call with the question. */
export function askStateless(
  call: AskingCall,
  reserved: ReservedQuestion,
  states: QuestionStates,
): AskResult {
  const { question, expiresAt } = reserved;
  letBinaryPass(call.ctx);
  const state = states.seal({ expiresAt, slots: keptSlots(reserved) }, call);
  return ask({ method: ELICIT_METHOD, params: question }, state);
}

/** Ends the call with the URL of an upload page. */
export async function askOnPageStateless(
  call: AskingCall,
  reserved: ReservedQuestion,
  { states, pages }: { readonly states: QuestionStates; readonly pages: UploadPages },
): Promise<AskResult> {
  const { message, owner } = call;
  const { question, expiresAt } = reserved;
  const pageId = newId();
  const url = await pages.pageUrl({ pageId, question, expiresAt, owner });
  const state = states.seal({ expiresAt, slots: keptSlots(reserved), pageId }, call);
  return ask(inputRequired.elicitUrl({ message, url }), state);
}

/** Takes up the repeated call. */
export async function takeUpAnswer<F extends Fields>(
  call: AskingCall<F>,
  { state, way }: { readonly state: QuestionState; readonly way: AskingWay },
  {
    confirmation,
    states,
    pages,
  }: {
    readonly confirmation: AnswerConfirmation;
    readonly states: QuestionStates;
    readonly pages: UploadPages;
  },
): Promise<FilesOutcome<F>> {
  const { ctx, fields, principal } = call;
  const { pageId, expiresAt } = state;
  const limits = way.kind === "binary" ? way.limits : {};
  const expected = new Map(
    fileFieldsOf(fields).map(([name, field]) => [
      name,
      { ...state.slots[name]!, terms: termsOf(field, limits) },
    ]),
  );
  let raw = ctx.mcpReq.inputResponses?.[inputKey];
  const isFromPage = pageId !== undefined && isConsent(raw);
  if (isFromPage) {
    const waitMs = Math.min(pageWaitMs, expiresAt - Date.now());
    try {
      raw = await awaitAnswer(pages, pageId, { waitMs, signal: ctx.mcpReq.signal });
    } catch (error) {
      // its state was used: no other call can take the answer
      await confirmation.cancel(principal, { slots: expected, pageId });
      throw error;
    }
    if (raw === undefined) {
      // the client calls again by itself when there is nothing to ask
      const requestState = states.seal(state, call);
      return { action: "ask", result: inputRequired({ requestState }) };
    }
  }
  return confirmation.confirm(call, { expected, raw, isFromPage, pageId });
}

function keptSlots({ slots }: ReservedQuestion): QuestionState["slots"] {
  return Object.fromEntries(
    [...slots].map(([name, { uploadId, expiresAt }]) => [name, { uploadId, expiresAt }]),
  );
}

function ask(request: object, requestState: string): AskResult {
  const inputRequests = { [inputKey]: request as InputRequest };
  return { action: "ask", result: inputRequired({ inputRequests, requestState }) };
}

/** The protocol's answer to a state that is not ours (2026-07-28, multi round-trip requests). */
export function rethrowState(error: unknown): never {
  if (!SluiceError.is(error) || !["invalid_argument", "expired"].includes(error.code)) throw error;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message, {
    reason: "invalid_request_state",
  });
}

/**
 * A result that is an error as soon as the SDK reads it: what a tool throws becomes a result with `isError`, and
 * the protocol wants these two to be JSON-RPC errors.
 */
export function failingResult(error: ProtocolError): AskResult {
  return {
    action: "ask",
    result: {
      resultType: "input_required",
      get inputRequests(): never {
        throw error;
      },
    },
  };
}
