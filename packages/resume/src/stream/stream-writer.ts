import { SluiceError, type EventStore } from "@sluice/core";
import { errorTable, type Reason } from "@sluice/core/wire";
import { Bell } from "./notifier.ts";
import {
  askName,
  cancelledBy,
  isRequest,
  isResponse,
  noAnswer,
  type RpcId,
  type RpcMessage,
} from "../protocol/message.ts";

/** What a journal is of. */
export interface JournalOptions {
  readonly store: EventStore;
  readonly streamId: string;
  readonly epoch: number;
  /** Id of the request that the stream answers. */
  readonly requestId: RpcId;
  /** Number of its newest event. */
  readonly lastSeq: number;
  /** Milliseconds for which a stream stays after its last event. */
  readonly keepMs: number;
  /** Milliseconds for which a store that does not answer is asked again. */
  readonly patienceMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * Writes what a server says in one stream into the event store, for as long as this process holds the stream. A
 * class with as little in it as can be: there is one for every request that waits.
 */
export class Journal {
  readonly streamId: string;
  /** Rings after every event, and at the end. */
  readonly bell: Bell = new Bell();
  readonly #options: JournalOptions;
  #lastSeq: number;
  #open: Map<string, RpcId> | undefined;
  #isOver = false;
  #isAnswered = false;
  #onEnd: (() => void)[] | undefined;
  #queue: Promise<void> = done;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.streamId = options.streamId;
    this.#lastSeq = options.lastSeq;
  }

  /** Number of the newest event that this process wrote or found. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** There is nothing more to write: the answer is there, or the stream is gone or another process has it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The server's own answer to the request is kept. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** The server waits for answers of the client. */
  get isAsking(): boolean {
    return this.#open !== undefined && this.#open.size > 0;
  }

  /** Questions whose answers the server waits for, with the ids by which it knows them. */
  get open(): Map<string, RpcId> {
    return (this.#open ??= new Map());
  }

  /** Calls `listener` once, at the end. */
  onEnd(listener: () => void): void {
    if (this.#isOver) return listener();
    // no longer than it is: a list that grows makes room for 16
    this.#onEnd = [...(this.#onEnd ?? []), listener];
  }

  /** Writes a message; in order, also when nobody waits. Resolves when it is kept, or will never be. */
  write(message: RpcMessage): Promise<void> {
    return this.#next(() => this.#keep(message));
  }

  /** Ends the stream with an error to its request. */
  fail(reason: Reason): Promise<void> {
    return this.#next(async () => {
      if (this.#isOver) return;
      try {
        await this.#last(reason);
      } finally {
        this.end();
      }
    });
  }

  /** Prolongs what this process holds; ends without a trace when another one has it, or its time is over. */
  async hold(heldUntil: number): Promise<void> {
    const { store, epoch } = this.#options;
    const held = await store.hold(this.streamId, { epoch, now: Date.now(), heldUntil });
    if (!held) this.end();
  }

  /** Ends without a trace. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#open = undefined;
    for (const listener of this.#onEnd ?? []) listener();
    this.#onEnd = undefined;
    this.bell.ring();
  }

  async #keep(message: RpcMessage): Promise<void> {
    if (this.#isOver) return;
    const { store, epoch, requestId, keepMs, patienceMs } = this.#options;
    const { streamId, bell } = this;
    const ask = isRequest(message) ? askName(message.id) : undefined;
    const isLast = isResponse(message) && message.id === requestId;
    // before it is kept: its answer can come as soon as somebody has read it
    if (ask !== undefined) this.open.set(ask, message.id!);
    const cancelled = cancelledBy(message);
    const withdrawn = cancelled === undefined ? "" : askName(cancelled);
    const isWithdrawn = this.#open?.delete(withdrawn) ?? false;
    const text = JSON.stringify(message);
    const giveUpAt = Date.now() + patienceMs;
    for (;;) {
      try {
        const now = Date.now();
        if (isWithdrawn) await store.answer(streamId, [{ ask: withdrawn, answer: noAnswer }], now);
        this.#lastSeq = await store.append(streamId, {
          epoch,
          text,
          now,
          // a store that did not answer in time may have kept it
          seq: this.#lastSeq + 1,
          ...(ask !== undefined && { ask }),
          ...(isLast && { last: { keepUntil: now + keepMs } }),
        });
        break;
      } catch (error) {
        const mayPass = SluiceError.is(error) && error.code === "unavailable";
        if (this.#isOver) return;
        if (!mayPass || Date.now() >= giveUpAt) {
          await this.#refuse(error).finally(() => this.end());
          return;
        }
        // also ends with the journal, which rings
        await bell.wait(bell.count, { ms: retryMs });
      }
    }
    this.#isAnswered = isLast;
    if (isLast) this.end();
    else bell.ring();
  }

  /** An event that cannot be kept would be missing for ever: better no stream than one with a hole. */
  async #refuse(error: unknown): Promise<void> {
    const code = SluiceError.is(error) ? error.code : "internal";
    // another process has it, or its time is over
    if (code !== "precondition_failed" && code !== "not_found") {
      this.#options.onError(error);
      await this.#last(code === "too_large" ? "too_large" : "internal");
    }
  }

  async #last(reason: Reason): Promise<void> {
    const { store, epoch, requestId, keepMs } = this.#options;
    const row = errorTable.find((each) => each.reason === reason)!;
    const error = { code: row.legacy, message: row.message, data: { reason } };
    const now = Date.now();
    await store.append(this.streamId, {
      epoch,
      text: JSON.stringify({ jsonrpc: "2.0", id: requestId, error }),
      now,
      last: { keepUntil: now + keepMs },
    });
  }

  #next(work: () => Promise<void>): Promise<void> {
    this.#queue = this.#queue.then(work).catch(this.#options.onError);
    return this.#queue;
  }
}

const done = Promise.resolve();
const retryMs = 250;
