import type { EventStore, StreamPage } from "@sluice/state";
import { Notifier, systemClock } from "@sluice/core/internal";
import { formatEventId, type StreamPosition } from "./event-id.ts";
import type { StreamWriter } from "./stream-writer.ts";

/**
 * When a reader is sent away before the result: `asking`, when the server waits for the client, and when nothing comes;
 * `idle`, only when nothing comes; `never`, for a client that would not come back.
 */
export type SendAway = "asking" | "idle" | "never";

/** How a stream is shown to one reader. */
export interface EventFeedOptions {
  readonly store: EventStore;
  /** Where the reader resumes. */
  readonly position: StreamPosition;
  /** The writer of a stream, where it is in this process. */
  readonly writerOf: (streamId: string) => StreamWriter | undefined;
  /** True once this process is about to end: its readers go elsewhere. */
  readonly isClosing: () => boolean;
  /** Begin with an event that has an id and no data (SEP-1699): a position to come back to. */
  readonly primed: boolean;
  readonly sendAway: SendAway;
  /** Notes, before a reader is sent away with a question, the position that it has read to; false where that is not kept. */
  readonly onAsked: (position: StreamPosition) => Promise<boolean>;
  /** Looks after the stream for a reader that stays, while no writer is in this process. */
  readonly adopt?: ((page: StreamPage) => Promise<unknown>) | undefined;
  /** Milliseconds for which a reader is kept while there is nothing to read. */
  readonly holdMs: number;
  /** Milliseconds before a reader that is sent away may reconnect. */
  readonly retryMs: number;
  readonly onError: (error: unknown) => void;
}

interface FeedPart {
  readonly text: string;
  readonly isEnd: boolean;
}

/**
 * The events behind a position as server-sent events, until the result is there. A reader is sent away with a `retry`
 * as `sendAway` says, and when another process works on the call.
 */
export function eventFeed(options: EventFeedOptions): ReadableStream<Uint8Array> {
  const { store, position, writerOf, isClosing, primed, sendAway } = options;
  const { onAsked, adopt, holdMs, retryMs, onError } = options;
  const { streamId } = position;
  /**
   * Something is to be looked at: an event, the end, a reader that left, or the end of its time.
   */
  const news = new Notifier();
  const notify = (): void => news.notify();
  let isGone = false;
  let { seq } = position;
  const patienceMs = sendAway === "never" ? silenceMs : holdMs;
  let text = primed ? `id: ${formatEventId(position)}\nretry: ${retryMs}\ndata: \n\n` : "";
  let silentSince = Date.now();

  /** The next part for the reader; `undefined` when there is none yet. */
  async function next(): Promise<FeedPart | undefined> {
    if (text !== "") return give("", false);
    const writer = writerOf(streamId);
    const removeListener = writer?.onChange(notify);
    try {
      return await look(writer);
    } finally {
      removeListener?.();
    }
  }

  /** Reads the store, and waits for news where it has nothing. */
  async function look(writer: StreamWriter | undefined): Promise<FeedPart | undefined> {
    const page = await store.read(streamId, {
      after: seq,
      now: Date.now(),
      maxEvents: eventsAtOnce,
    });
    if (!page) return give("", true);
    for (const event of page.events) {
      seq = event.seq;
      text += `id: ${formatEventId({ streamId, seq })}\ndata: ${event.text}\n\n`;
    }
    const isEnd = page.isOver && seq === page.lastSeq;
    if (text !== "" || isEnd) return give("", isEnd);
    const isAsking = page.asks.some(({ answer }) => answer === undefined);
    const leftMs = silentSince + patienceMs - Date.now();
    if (sendAway === "asking" && isAsking) {
      const isKept = await onAsked({ streamId, seq });
      return give(`retry: ${isKept ? askingRetryMs : retryMs}\n\n`, true);
    }
    const isOut = !writer || leftMs <= 0 || isClosing();
    if (sendAway !== "never" && isOut) return give(`retry: ${retryMs}\n\n`, true);
    if (!writer) await adopt?.(page);
    if (leftMs <= 0) return give(": still there\n\n", false);
    const waitMs = writer ? leftMs : Math.min(leftMs, Math.max(retryMs, minPauseMs));
    const cancelTimer = systemClock.schedule(notify, waitMs);
    await news.wait();
    cancelTimer();
    return undefined;
  }

  function give(more: string, isEnd: boolean): FeedPart {
    const part = { text: text + more, isEnd };
    text = "";
    silentSince = Date.now();
    return part;
  }

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const part = await next();
            if (isGone) return;
            if (!part) continue;
            if (part.text !== "") controller.enqueue(encoder.encode(part.text));
            if (part.isEnd) controller.close();
            return;
          }
        } catch (error) {
          onError(error);
          // a broken stream, not an ended one: the reader comes back
          controller.error(error);
        }
      },
      cancel() {
        isGone = true;
        notify();
      },
    },
    { highWaterMark: 0 },
  );
}

const encoder = new TextEncoder();
const eventsAtOnce = 64;
/** A client comes back only once to learn that the server waits for its responses. */
const askingRetryMs = 10;
/** Minimum pause between two looks at a stream that another process writes. */
const minPauseMs = 100;
/** Longest silence towards a reader that cannot be sent away, as in the SDK. */
const silenceMs = 15_000;
