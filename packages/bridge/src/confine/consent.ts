import { randomUUID } from "node:crypto";
import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import type { BridgeCalls } from "../messages/hooks.ts";
import { isMembers, membersOf, type Members } from "../messages/messages.ts";

/** A host of 2026-07-28 takes the question in the result of its call, and calls again with the answer. */
export class QuestionInResult extends Error {
  override readonly name = "QuestionInResult";
  readonly result: Members;

  constructor(result: Members) {
    super("the host is asked in a result");
    this.result = result;
  }
}

/** A form with one field. */
export interface HostQuestion {
  readonly message: string;
  readonly field: string;
  /** JSON Schema of the field. */
  readonly schema: Members;
}

interface AgreeOptions {
  readonly signal: AbortSignal;
  /** What to do where the host cannot ask. */
  readonly advice: string;
}

/** Asks the user through the host's form elicitation. */
export class HostQuestions {
  readonly #calls: () => BridgeCalls;
  /** Open questions, by what a repeated call must say. */
  readonly #open = new Map<string, PendingQuestion>();

  constructor(calls: () => BridgeCalls) {
    this.#calls = calls;
  }

  /** True when the host can show a form. */
  isPossible(): boolean {
    return showsForms(this.#calls().hostCapabilities);
  }

  /** The user's value; undefined if there is none. In revisions up to 2025-11-25 only. */
  async askFor(question: HostQuestion, signal?: AbortSignal): Promise<unknown> {
    const { result } = await this.#calls().askHost("elicitation/create", formOf(question), signal);
    return valueIn(result, question.field);
  }

  /** True if the user says yes. Rejects with `permission_denied` and `advice` if none can be asked. */
  async agree(
    request: JSONRPCRequest,
    message: string,
    { signal, advice }: AgreeOptions,
  ): Promise<boolean> {
    if (!this.isPossible())
      throw new SluiceError(
        "permission_denied",
        `bridge: ${message} The host cannot ask the user: ${advice}`,
      );
    const question = { message, field: "agree", schema: { type: "boolean", title: "Yes" } };
    if (this.#calls().hostRevision === "legacy")
      return (await this.askFor(question, signal)) === true;
    const answered = this.#questionOf(request);
    if (answered?.agreed.includes(message)) return true;
    if (answered?.message !== message) {
      // a call with two questions is repeated twice: the first yes still counts
      const isSameCall = answered?.answeredBy === request;
      return this.#askInResult(question, isSameCall ? [...answered.agreed, answered.message] : []);
    }
    answered.answeredBy = request;
    const { inputResponses } = membersOf(request.params);
    return valueIn(membersOf(inputResponses)["agree"], "agree") === true;
  }

  /** The question that a repeated call answers. An answer counts for one call. */
  #questionOf(request: JSONRPCRequest): PendingQuestion | undefined {
    const { requestState } = membersOf(request.params);
    const question = typeof requestState === "string" ? this.#open.get(requestState) : undefined;
    return question?.answeredBy === undefined || question.answeredBy === request
      ? question
      : undefined;
  }

  #askInResult(question: HostQuestion, agreed: readonly string[]): never {
    const state = randomUUID();
    this.#open.set(state, { message: question.message, agreed });
    // a host that never comes back must not fill the memory
    for (const oldest of this.#open.keys())
      if (this.#open.size > maxOpen) this.#open.delete(oldest);
    throw new QuestionInResult({
      resultType: "input_required",
      inputRequests: { agree: { method: "elicitation/create", params: formOf(question) } },
      requestState: state,
    });
  }
}

const maxOpen = 64;

interface PendingQuestion {
  readonly message: string;
  /** What the user agreed to before, for the same call. */
  readonly agreed: readonly string[];
  answeredBy?: JSONRPCRequest;
}

/** True for a host that can show a form. An empty capability means forms (2025-06-18). */
export function showsForms({ elicitation }: Members): boolean {
  if (!isMembers(elicitation)) return false;
  return "form" in elicitation || Object.keys(elicitation).length === 0;
}

/** The value of a field in the answer to a form; undefined if the user declined. */
export function valueIn(answer: unknown, field: string): unknown {
  const { action, content } = membersOf(answer);
  return action === "accept" ? membersOf(content)[field] : undefined;
}

/** Params of `elicitation/create` for a question. */
export function formOf({ message, field, schema }: HostQuestion): Members {
  const requestedSchema = { type: "object", properties: { [field]: schema }, required: [field] };
  return { message, requestedSchema };
}
