import {
  inputRequired,
  ProtocolError,
  ProtocolErrorCode,
  type InputRequest,
  type InputRequiredResult,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { ELICIT_METHOD } from "@sluice/core/internal";
import type { UploadPages } from "../page/upload-pages.ts";
import { newId } from "../slots/slots.ts";
import type { AnswerConfirmation, AskingCall, FilesOutcome } from "./confirm-answer.ts";
import { fileFieldsOf, termsOf, type Fields } from "../elicitation/fields.ts";
import { awaitAnswer, isConsent } from "./arrival.ts";
import type { QuestionState, QuestionStates } from "./elicit-state.ts";
import { letBinaryPass, type AskingWay } from "./elicit-way.ts";
import type { ReservedQuestion } from "./reserve-question.ts";

// MCP 2026-07-28: the call ends with the question, and the client repeats it with the answer and the sealed state.

/** The only question of its call. */
const inputKey = "files";
/** How long a repeated call waits for the page: clients give up on a request after 60 s. */
const pageWaitMs = 45_000;

interface StatelessResult {
  readonly action: "ask";
  readonly result: InputRequiredResult;
}

interface StatelessParts {
  readonly confirmation: AnswerConfirmation;
  readonly states: QuestionStates;
  readonly pages: UploadPages;
}

/** Asks clients without sessions. */
export class StatelessAsker {
  readonly #parts: StatelessParts;

  constructor(parts: StatelessParts) {
    this.#parts = parts;
  }

  /** Ends the call with the question. */
  ask(call: AskingCall, reserved: ReservedQuestion): StatelessResult {
    const { question, expiresAt } = reserved;
    letBinaryPass(call.ctx);
    const state = this.#parts.states.seal({ expiresAt, slots: keptSlots(reserved) }, call);
    return askResult({ method: ELICIT_METHOD, params: question }, state);
  }

  /** Ends the call with the URL of an upload page. */
  async askOnPage(call: AskingCall, reserved: ReservedQuestion): Promise<StatelessResult> {
    const { states, pages } = this.#parts;
    const { message, owner } = call;
    const { question, expiresAt } = reserved;
    const pageId = newId();
    const url = await pages.pageUrl({ pageId, question, expiresAt, owner });
    const state = states.seal({ expiresAt, slots: keptSlots(reserved), pageId }, call);
    return askResult(inputRequired.elicitUrl({ message, url }), state);
  }

  /** Takes up the repeated call, with the sealed state of its question. */
  async takeUp<F extends Fields>(
    call: AskingCall<F>,
    way: AskingWay,
    sealed: unknown,
  ): Promise<FilesOutcome<F>> {
    const { confirmation, states, pages } = this.#parts;
    const { ctx, fields, principal } = call;
    const state = await states.open(sealed, call).catch(rethrowState);
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
}

function keptSlots({ slots }: ReservedQuestion): QuestionState["slots"] {
  return Object.fromEntries(
    [...slots].map(([name, { uploadId, expiresAt }]) => [name, { uploadId, expiresAt }]),
  );
}

function askResult(request: object, requestState: string): StatelessResult {
  const inputRequests = { [inputKey]: request as InputRequest };
  return { action: "ask", result: inputRequired({ inputRequests, requestState }) };
}

/** The protocol's answer to a state that is not ours (2026-07-28, multi round-trip requests). */
function rethrowState(error: unknown): never {
  if (!SluiceError.is(error) || !["invalid_argument", "expired"].includes(error.code)) throw error;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message, {
    reason: "invalid_request_state",
  });
}

/**
 * A result that is an error as soon as the SDK reads it: what a tool throws becomes a result with `isError`, and
 * the protocol wants these two to be JSON-RPC errors.
 */
export function failingResult(error: ProtocolError): StatelessResult {
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
