import type { JSONRPCRequest, RequestId } from "@modelcontextprotocol/client";

/** Servers wait a minute for an answer, as the official SDKs do it. */
const waitMs = 60_000;
const maxWaiting = 64;

/** Questions of a server that came while no call was open which could carry them. */
export class WaitingQuestions {
  readonly #refuse: (question: JSONRPCRequest) => void;
  readonly #waiting = new Map<JSONRPCRequest, NodeJS.Timeout>();

  /** `refuse` gets a question that waited too long. */
  constructor(refuse: (question: JSONRPCRequest) => void) {
    this.#refuse = refuse;
  }

  /** Keeps a question for the next call. */
  add(question: JSONRPCRequest): void {
    if (this.#waiting.size >= maxWaiting) return this.#refuse(question);
    const late = setTimeout(() => {
      this.#waiting.delete(question);
      this.#refuse(question);
    }, waitMs);
    late.unref();
    this.#waiting.set(question, late);
  }

  /** All that wait, oldest first; they wait no more. */
  take(): JSONRPCRequest[] {
    const questions = [...this.#waiting.keys()];
    this.clear();
    return questions;
  }

  /** The server takes a question back. */
  withdraw(id: RequestId): void {
    for (const [question, late] of this.#waiting) {
      if (question.id !== id) continue;
      clearTimeout(late);
      this.#waiting.delete(question);
    }
  }

  /** Forgets all. */
  clear(): void {
    for (const late of this.#waiting.values()) clearTimeout(late);
    this.#waiting.clear();
  }
}
