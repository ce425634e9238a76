import { SluiceError, type EventStore } from "@sluice/core";
import { errorTable, type Reason } from "@sluice/core/wire";
import { createBell, type Bell } from "./resume-bell.ts";
import {
  askName,
  cancelledBy,
  isRequest,
  isResponse,
  noAnswer,
  type RpcId,
  type RpcMessage,
} from "./resume-message.ts";

/** Writes what a server says in one stream into the event store, for as long as this process holds the stream. */
export interface Journal {
  readonly streamId: string;
  /** Number of the newest event that this process wrote or found. */
  readonly lastSeq: number;
  /** Rings after every event, and at the end. */
  readonly bell: Bell;
  /** Questions whose answers the server waits for, with the ids by which it knows them. */
  readonly open: Map<string, RpcId>;
  /** Aborts when there is nothing more to write: the answer is there, or the stream is gone or another process has it. */
  readonly ended: AbortSignal;
  /** The server's own answer to the request is kept. */
  readonly isAnswered: boolean;
  /** Writes a message; in order, also when nobody waits. Resolves when it is kept, or will never be. */
  write(message: RpcMessage): Promise<void>;
  /** Ends the stream with an error to its request. */
  fail(reason: Reason): Promise<void>;
  /** Prolongs what this process holds; ends without a trace when another one has it, or its time is over. */
  hold(heldUntil: number): Promise<void>;
  /** Ends without a trace. */
  end(): void;
}

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

/** Makes the journal of a stream that this process holds. */
export function createJournal(options: JournalOptions): Journal {
  const { store, streamId, epoch, requestId, keepMs, patienceMs, onError } = options;
  const bell = createBell();
  const ending = new AbortController();
  const open = new Map<string, RpcId>();
  const { signal: ended } = ending;
  let { lastSeq } = options;
  let isAnswered = false;
  let queue: Promise<void> = Promise.resolve();

  function end(): void {
    if (ended.aborted) return;
    open.clear();
    ending.abort();
    bell.ring();
  }

  async function keep(message: RpcMessage): Promise<void> {
    if (ended.aborted) return;
    const ask = isRequest(message) ? askName(message.id) : undefined;
    const isLast = isResponse(message) && message.id === requestId;
    // before it is kept: its answer can come as soon as somebody has read it
    if (ask !== undefined) open.set(ask, message.id!);
    const cancelled = cancelledBy(message);
    const withdrawn = cancelled === undefined ? "" : askName(cancelled);
    const isWithdrawn = open.delete(withdrawn);
    const text = JSON.stringify(message);
    const giveUpAt = Date.now() + patienceMs;
    for (;;) {
      try {
        const now = Date.now();
        if (isWithdrawn) await store.answer(streamId, [{ ask: withdrawn, answer: noAnswer }], now);
        lastSeq = await store.append(streamId, {
          epoch,
          text,
          now,
          // a store that did not answer in time may have kept it
          seq: lastSeq + 1,
          ...(ask !== undefined && { ask }),
          ...(isLast && { last: { keepUntil: now + keepMs } }),
        });
        break;
      } catch (error) {
        const mayPass = SluiceError.is(error) && error.code === "unavailable";
        if (ended.aborted) return;
        if (!mayPass || Date.now() >= giveUpAt) {
          await refuse(error).finally(end);
          return;
        }
        await bell.wait(bell.count, { ms: retryMs, signal: ended });
      }
    }
    isAnswered = isLast;
    if (isLast) end();
    else bell.ring();
  }

  /** An event that cannot be kept would be missing for ever: better no stream than one with a hole. */
  async function refuse(error: unknown): Promise<void> {
    const code = SluiceError.is(error) ? error.code : "internal";
    // another process has it, or its time is over
    if (code !== "precondition_failed" && code !== "not_found") {
      onError(error);
      await last(code === "too_large" ? "too_large" : "internal");
    }
  }

  async function last(reason: Reason): Promise<void> {
    const row = errorTable.find((each) => each.reason === reason)!;
    const error = { code: row.legacy, message: row.message, data: { reason } };
    const now = Date.now();
    await store.append(streamId, {
      epoch,
      text: JSON.stringify({ jsonrpc: "2.0", id: requestId, error }),
      now,
      last: { keepUntil: now + keepMs },
    });
  }

  function next(work: () => Promise<void>): Promise<void> {
    queue = queue.then(work).catch(onError);
    return queue;
  }

  return {
    streamId,
    bell,
    open,
    ended,
    get isAnswered() {
      return isAnswered;
    },
    get lastSeq() {
      return lastSeq;
    },
    write: (message) => next(() => keep(message)),
    fail: (reason) =>
      next(async () => {
        if (ended.aborted) return;
        try {
          await last(reason);
        } finally {
          end();
        }
      }),
    async hold(heldUntil) {
      const held = await store.hold(streamId, { epoch, now: Date.now(), heldUntil });
      if (!held) end();
    },
    end,
  };
}

const retryMs = 250;
