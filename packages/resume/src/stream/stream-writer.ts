import { SluiceError } from "@sluice/core";
import {
  cancelledBy,
  definedMembers,
  errorTable,
  isRequest,
  isResponse,
  type LooseMessage,
  type Reason,
  type RpcId,
  systemClock,
} from "@sluice/core/internal";
import type { EventStore } from "@sluice/state";
import { noAnswer, questionName } from "./question.ts";

/** Terms that the writers of one endpoint share. */
export interface WriterTerms {
  readonly store: EventStore;
  /** Milliseconds for which a stream stays after its last event. */
  readonly keepMs: number;
  /** Milliseconds for which a store that does not answer is asked again. */
  readonly patienceMs: number;
  readonly onError: (error: unknown) => void;
}

/** The stream that a writer has. */
export interface WrittenStream {
  readonly streamId: string;
  readonly epoch: number;
  /** Id of the request that the stream answers. */
  readonly requestId: RpcId;
  /** Number of its newest event. */
  readonly lastSeq: number;
}

/**
 * Writes what a server says in one stream into the event store, for as long as this process holds the stream. A class
 * with few members: there is one for every call that waits.
 */
export class StreamWriter {
  readonly streamId: string;
  readonly #terms: WriterTerms;
  readonly #stream: WrittenStream;
  #lastSeq: number;
  #openQuestions: Map<string, RpcId> | undefined;
  #isOver = false;
  #isAnswered = false;
  #onEnd: (() => void)[] | undefined;
  #onChange: Set<() => void> | undefined;
  #queue: Promise<void> = done;

  constructor(terms: WriterTerms, stream: WrittenStream) {
    this.#terms = terms;
    this.#stream = stream;
    this.streamId = stream.streamId;
    this.#lastSeq = stream.lastSeq;
  }

  /** Number of the newest event that this process wrote or found. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** There is nothing more to write: the result is there, the stream is gone, or another process has it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The server's own result is kept. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** The server waits for responses of the client. */
  get isAsking(): boolean {
    return this.#openQuestions !== undefined && this.#openQuestions.size > 0;
  }

  /** Names of the questions without an answer, with their ids. */
  get openQuestions(): Map<string, RpcId> {
    return (this.#openQuestions ??= new Map());
  }

  /** Calls `listener` once, at the end. */
  onEnd(listener: () => void): void {
    if (this.#isOver) return listener();
    // a new array has room for its members only, one that grows for 16
    this.#onEnd = [...(this.#onEnd ?? []), listener];
  }

  /** Calls `listener` after every event, at the end and at `notify`, until the returned function removes it. */
  onChange(listener: () => void): () => void {
    const listeners = (this.#onChange ??= new Set());
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#onChange === listeners) this.#onChange = undefined;
    };
  }

  /** Has the readers look again. */
  notify(): void {
    for (const listener of this.#onChange ?? []) listener();
  }

  /** Resolves after `ms` milliseconds, at the next event, and at the end. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        cancelTimer();
        removeListener();
        resolve();
      };
      const cancelTimer = systemClock.schedule(wake, ms);
      const removeListener = this.onChange(wake);
    });
  }

  /** Writes a message, in the order of the calls. Resolves when it is kept, or will never be. */
  write(message: LooseMessage): Promise<void> {
    return this.#enqueue(() => this.#keep(message));
  }

  /** Ends the stream with an error to its request. */
  fail(reason: Reason): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#isOver) return;
      try {
        await this.#writeError(reason);
      } finally {
        this.end();
      }
    });
  }

  /**
   * Prolongs the hold of this process; ends without an event when another process has the stream,
   * or it expired.
   */
  async hold(heldUntil: number): Promise<void> {
    const { epoch } = this.#stream;
    const isHeld = await this.#terms.store.hold(this.streamId, {
      epoch,
      now: Date.now(),
      heldUntil,
    });
    if (!isHeld) this.end();
  }

  /** Ends without an event. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#openQuestions = undefined;
    for (const listener of this.#onEnd ?? []) listener();
    this.#onEnd = undefined;
    this.notify();
  }

  async #keep(message: LooseMessage): Promise<void> {
    if (this.#isOver) return;
    const { store, keepMs, patienceMs } = this.#terms;
    const { epoch, requestId } = this.#stream;
    const { streamId } = this;
    const ask = isRequest(message) ? questionName(message.id) : undefined;
    const isLast = isResponse(message) && message.id === requestId;
    // before it is kept: its response can come as soon as a reader has it
    if (isRequest(message)) this.openQuestions.set(questionName(message.id), message.id);
    const cancelled = cancelledBy(message);
    const withdrawn = cancelled === undefined ? "" : questionName(cancelled);
    const isWithdrawn = this.#openQuestions?.delete(withdrawn) ?? false;
    const text = JSON.stringify(message);
    const giveUpAt = Date.now() + patienceMs;
    for (;;) {
      try {
        const now = Date.now();
        if (isWithdrawn) await store.answer(streamId, [{ ask: withdrawn, answer: noAnswer }], now);
        // a store that did not answer in time may have kept it: the number tells
        const seq = this.#lastSeq + 1;
        const last = isLast ? { keepUntil: now + keepMs } : undefined;
        const event = definedMembers({ epoch, text, now, seq, ask, last });
        this.#lastSeq = await store.append(streamId, event);
        break;
      } catch (error) {
        const mayPass = SluiceError.is(error) && error.code === "unavailable";
        if (this.#isOver) return;
        if (!mayPass || Date.now() >= giveUpAt) {
          await this.#giveUp(error).finally(() => this.end());
          return;
        }
        await this.pause(retryMs);
      }
    }
    this.#isAnswered = isLast;
    if (isLast) this.end();
    else this.notify();
  }

  /** Ends the stream with an error: without an event that cannot be kept, it would have a hole. */
  async #giveUp(error: unknown): Promise<void> {
    const code = SluiceError.is(error) ? error.code : "internal";
    // another process has the stream, or it expired
    if (code === "precondition_failed" || code === "not_found") return;
    this.#terms.onError(error);
    await this.#writeError(code === "too_large" ? "too_large" : "internal");
  }

  async #writeError(reason: Reason): Promise<void> {
    const { store, keepMs } = this.#terms;
    const { epoch, requestId } = this.#stream;
    const row = errorTable[reason];
    const error = { code: row.legacy, message: row.message, data: { reason } };
    const now = Date.now();
    await store.append(this.streamId, {
      epoch,
      text: JSON.stringify({ jsonrpc: "2.0", id: requestId, error }),
      now,
      last: { keepUntil: now + keepMs },
    });
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#queue = this.#queue.then(work).catch(this.#terms.onError);
    return this.#queue;
  }
}

/** A call that this process is working on. */
export interface RunningCall {
  readonly writer: StreamWriter;
  readonly sessionId: string;
  /** Tag of the principal, in its session, that made the call. */
  readonly owner: string;
  readonly requestId: RpcId;
  /** Gives the server the answer to one of its questions, at most once each. */
  deliver(question: string, answer: string): Promise<void>;
}

const done = Promise.resolve();
const retryMs = 250;
