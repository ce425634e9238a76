/** Bounds of an {@link EventStore}. */
export interface EventStoreLimits {
  /** Maximum events of one stream. Default: 1,000. */
  readonly maxEvents?: number;
  /** Maximum bytes of one stream: its record, its events and the responses to them, in UTF-8. Default: 4 MiB. */
  readonly maxBytes?: number;
  /** Maximum number of streams. Default: 10,000. */
  readonly maxStreams?: number;
  /** Maximum bytes of all streams together, counted as in `maxBytes`. Default: 64 MiB. */
  readonly maxTotalBytes?: number;
}

const defaults: Required<EventStoreLimits> = {
  maxEvents: 1_000,
  maxBytes: 4 * 1024 * 1024,
  maxStreams: 10_000,
  maxTotalBytes: 64 * 1024 * 1024,
};

/** The bounds of a store, with defaults. Throws a `RangeError` that begins with `store` for an invalid one. */
export function readEventStoreLimits(
  store: string,
  given: EventStoreLimits,
): Required<EventStoreLimits> {
  const limits = { ...defaults };
  for (const name of Object.keys(limits) as (keyof EventStoreLimits)[]) {
    const limit = given[name] ?? limits[name];
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new RangeError(`${store}: ${name} must be a whole number from 1`);
    limits[name] = limit;
  }
  return limits;
}

/**
 * UTF-8 bytes that the last event of a stream may have and be kept whatever is full: a reader must
 * always get to know how it ended.
 */
export const lastEventBytes = 1_024;

/** What {@link EventStore.open} keeps of a new stream. */
export interface NewStream {
  /** Opaque text about the stream, given back by every `read`. */
  readonly record: string;
  readonly now: number;
  /** End of the stream, whatever happens in it. */
  readonly expiresAt: number;
  /** Until then the first writer, of epoch 1, holds the stream. */
  readonly heldUntil: number;
}

/** One event to {@link EventStore.append}. */
export interface NewEvent {
  /** Writer: the number that `claim` gave, or 1. */
  readonly epoch: number;
  /** The event itself, opaque. Not empty. */
  readonly text: string;
  readonly now: number;
  /**
   * Number of the event, from a writer that does not know whether the store kept it. When the event
   * with that number has the same text, the store adds nothing.
   */
  readonly seq?: number;
  /** The event asks the reader something under this name; {@link EventStore.answer} takes the response. */
  readonly ask?: string;
  /** No event follows, and the stream is forgotten at this time or at its end, whichever comes first. */
  readonly last?: { readonly keepUntil: number };
}

/** A question of a stream. */
export interface Ask {
  readonly ask: string;
  /** Number of the event that asks. */
  readonly seq: number;
  /** Absent until the first response. */
  readonly answer?: string | undefined;
}

/** One response to {@link EventStore.answer}. */
export interface NewAnswer {
  readonly ask: string;
  readonly answer: string;
}

/** Result of {@link EventStore.read}. */
export interface StreamPage {
  readonly record: string;
  /** Events after the one asked for, in order, as many as were wanted. */
  readonly events: readonly { readonly seq: number; readonly text: string }[];
  /** Number of the newest event; 0 when there is none. */
  readonly lastSeq: number;
  /** The newest event is the last one. */
  readonly isOver: boolean;
  /** Every question so far, in the order of their events. */
  readonly asks: readonly Ask[];
}

/**
 * Streams of events that any process can read again, and the answers to their questions. Every method is atomic
 * across processes, and rejects with `unavailable` when the store cannot answer. Ids and names of questions are
 * opaque ASCII of at most 128 characters; times are unix milliseconds and are passed in; events are numbered from 1
 * without gaps.
 *
 * One writer at a time holds a stream, for a while that it prolongs. Each has an epoch, and a replaced writer can
 * write no more, however late it notices (a fencing token).
 *
 * Without room, ended streams are forgotten, the one that ended first going first. A method that needs more room
 * than that gives rejects with `unavailable`.
 */
export interface EventStore {
  /** Opens a stream. Rejects with `already_exists` for an id that is kept, `too_large` for a record beyond `maxBytes`. */
  open(id: string, stream: NewStream): Promise<void>;
  /**
   * Makes the caller the writer of a stream that has no holder at `now`. Gives its epoch, one more than the one
   * before; `undefined` when the stream has a holder, has ended or does not exist.
   */
  claim(
    id: string,
    times: { readonly now: number; readonly heldUntil: number },
  ): Promise<number | undefined>;
  /**
   * Prolongs the hold of the writer of this epoch, or gives it up with a `heldUntil` that is not after `now`.
   * False when another writer has claimed the stream, it has ended or does not exist.
   */
  hold(
    id: string,
    writer: { readonly epoch: number; readonly now: number; readonly heldUntil: number },
  ): Promise<boolean>;
  /**
   * Adds an event and gives its number. A `last` event of at most {@link lastEventBytes} is never refused for its
   * size. Rejects, and changes nothing, with
   * - `not_found` when there is no such stream
   * - `precondition_failed` when another writer has claimed it or it has ended
   * - `already_exists` for a question that was asked before
   * - `too_large` beyond `maxEvents` or `maxBytes`
   */
  append(id: string, event: NewEvent): Promise<number>;
  /**
   * Keeps answers, all or none: the first one to each question counts. Rejects with `too_large` beyond `maxBytes`.
   * - `accepted`: at least one is new
   * - `repeated`: every one was there, word for word
   * - `refused`: nothing changed. There are none, one is to a question that was not asked or is named twice, one
   *   differs from an earlier answer, or one is new and the stream has ended
   * - `undefined`: there is no such stream
   */
  answer(
    id: string,
    answers: readonly NewAnswer[],
    now: number,
  ): Promise<"accepted" | "repeated" | "refused" | undefined>;
  /** Events after number `after`, at most `maxEvents` (default: all); `undefined` when there is no such stream. */
  read(
    id: string,
    from: { readonly after: number; readonly now: number; readonly maxEvents?: number | undefined },
  ): Promise<StreamPage | undefined>;
  /** Forgets a stream; unknown ones are ignored. */
  drop(id: string): Promise<void>;
  /** Releases connections and timers. Idempotent. */
  close?(): Promise<void>;
}
