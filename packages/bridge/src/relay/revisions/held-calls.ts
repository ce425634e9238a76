import { randomUUID } from "node:crypto";
import type { JSONRPCRequest, JSONRPCResponse, RequestId } from "@modelcontextprotocol/client";
import { keyOf } from "@sluice/core/internal";
import {
  answerTo,
  codes,
  isMembers,
  membersOf,
  refusal,
  type Answer,
  type Members,
} from "../../messages/messages.ts";
import type { OpenCall } from "../open-calls.ts";

const maxHeld = 64;
/** Questions that may wait for one call. */
const maxQuestions = 100;
/** Questions that come together are asked together. */
const gatherMs = 10;

/** Methods whose result may ask for more (2026-07-28). */
const askingMethods: ReadonlySet<string> = new Set(["prompts/get", "resources/read", "tools/call"]);

/** A call at the server whose answer the host gets in the result of its newest repetition. */
interface HeldCall {
  readonly call: OpenCall;
  /** Newest repetition of the host; undefined while the host holds questions. */
  host: JSONRPCRequest | undefined;
  /** What the host must say to go on. */
  state: string | undefined;
  readonly questions: Map<string, JSONRPCRequest>;
  /** The server's answer, when it came while the host held questions. */
  answer: Answer | undefined;
  rounds: number;
  timer: NodeJS.Timeout | undefined;
}

/** True when a call can carry questions. */
export function canAsk({ request }: OpenCall): boolean {
  return askingMethods.has(request.method);
}

interface HeldCallsParts {
  /** Longest wait for the host to go on, in milliseconds. */
  readonly askMs: number;
  readonly maxRounds: number;
  readonly toHost: (response: JSONRPCResponse) => void;
  /** Gives the server the answer to its question. */
  readonly toServer: (response: JSONRPCResponse) => void;
  /** The host did not go on: the call is taken back. */
  readonly giveUp: (call: OpenCall) => void;
}

/**
 * Questions of a server of 2025-11-25 or older, put to a host of 2026-07-28 in results of its calls. The call at
 * the server stays open while the host answers.
 */
export class HeldCalls {
  readonly #parts: HeldCallsParts;
  readonly #byServerId = new Map<string, HeldCall>();
  readonly #byState = new Map<string, HeldCall>();

  constructor(parts: HeldCallsParts) {
    this.#parts = parts;
  }

  /** Puts a question of the server to the host, in the result of `call`. */
  ask(call: OpenCall, question: JSONRPCRequest): void {
    const heldCall = this.#byServerId.get(keyOf(call.serverId)) ?? this.#hold(call);
    if (
      !heldCall ||
      heldCall.questions.size >= maxQuestions ||
      heldCall.rounds >= this.#parts.maxRounds
    ) {
      const message = "The client has too many questions to answer";
      this.#parts.toServer(refusal(question.id, codes.internal, message));
      return;
    }
    heldCall.questions.set(randomUUID(), question);
    if (!heldCall.host || heldCall.timer) return;
    heldCall.timer = setTimeout(() => {
      heldCall.timer = undefined;
      this.#pose(heldCall);
    }, gatherMs);
  }

  #hold(call: OpenCall): HeldCall | undefined {
    if (this.#byServerId.size >= maxHeld) return undefined;
    const heldCall: HeldCall = {
      call,
      host: call.request,
      state: undefined,
      questions: new Map(),
      answer: undefined,
      rounds: 0,
      timer: undefined,
    };
    this.#byServerId.set(keyOf(call.serverId), heldCall);
    return heldCall;
  }

  #pose(heldCall: HeldCall): void {
    const { host } = heldCall;
    if (!host || heldCall.questions.size === 0) return;
    heldCall.rounds++;
    heldCall.state = randomUUID();
    heldCall.host = undefined;
    this.#byState.set(heldCall.state, heldCall);
    const inputRequests = Object.fromEntries(
      [...heldCall.questions].map(([key, { method, params }]) => [
        key,
        params ? { method, params } : { method },
      ]),
    );
    const result = { resultType: "input_required", inputRequests, requestState: heldCall.state };
    heldCall.timer = setTimeout(() => this.#giveUp(heldCall), this.#parts.askMs);
    this.#parts.toHost(answerTo(host.id, { result }));
  }

  /**
   * Takes the repetition of a held call. `undefined`: it is a call of its own. An error: the call it repeats is over.
   */
  resume(request: JSONRPCRequest): HeldCall | JSONRPCResponse | undefined {
    const { requestState, inputResponses } = membersOf(request.params);
    if (requestState === undefined) return undefined;
    const state = typeof requestState === "string" ? requestState : "";
    const heldCall = this.#byState.get(state);
    if (!heldCall) {
      const message = "That call has ended. Call again without requestState.";
      return refusal(request.id, codes.invalidParams, message);
    }
    this.#byState.delete(state);
    clearTimeout(heldCall.timer);
    heldCall.timer = undefined;
    heldCall.state = undefined;
    heldCall.host = request;
    this.#answerQuestions(heldCall, membersOf(inputResponses));
    return heldCall;
  }

  #answerQuestions(heldCall: HeldCall, responses: Members): void {
    for (const [key, question] of heldCall.questions) {
      const result = responses[key];
      if (!isMembers(result)) continue;
      heldCall.questions.delete(key);
      this.#parts.toServer(answerTo(question.id, { result }));
    }
    if (heldCall.answer) this.answer(heldCall, heldCall.answer);
    // what the host did not answer, and what came meanwhile
    else if (heldCall.questions.size > 0 && heldCall.rounds < this.#parts.maxRounds)
      this.#pose(heldCall);
    else this.#refuseQuestions(heldCall);
  }

  get(serverId: RequestId): HeldCall | undefined {
    return this.#byServerId.get(keyOf(serverId));
  }

  /** The held call whose newest repetition has this id. */
  byHostId(id: RequestId): HeldCall | undefined {
    return [...this.#byServerId.values()].find((heldCall) => heldCall.host?.id === id);
  }

  /** Gives the host the server's answer; keeps it while the host holds questions. */
  answer(heldCall: HeldCall, answer: Answer): void {
    heldCall.answer = answer;
    if (!heldCall.host) return;
    this.end(heldCall);
    this.#parts.toHost(answerTo(heldCall.host.id, answer));
  }

  /** The server takes a question back. */
  withdraw(id: RequestId): void {
    for (const heldCall of this.#byServerId.values())
      for (const [key, question] of heldCall.questions)
        if (question.id === id) heldCall.questions.delete(key);
  }

  /** Forgets a call; what the server still asks is refused. */
  end(heldCall: HeldCall): void {
    clearTimeout(heldCall.timer);
    this.#byServerId.delete(keyOf(heldCall.call.serverId));
    if (heldCall.state !== undefined) this.#byState.delete(heldCall.state);
    this.#refuseQuestions(heldCall);
  }

  endAll(): void {
    for (const heldCall of this.#byServerId.values()) {
      heldCall.questions.clear();
      // a repetition that comes later hears that the call is over
      this.end(heldCall);
    }
  }

  #refuseQuestions(heldCall: HeldCall): void {
    for (const question of heldCall.questions.values())
      this.#parts.toServer(refusal(question.id, codes.internal, "The client did not answer"));
    heldCall.questions.clear();
  }

  #giveUp(heldCall: HeldCall): void {
    this.end(heldCall);
    this.#parts.giveUp(heldCall.call);
  }
}
