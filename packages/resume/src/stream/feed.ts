import type { EventStore, StreamPage } from "@sluice/core";
import { Bell } from "./notifier.ts";
import type { Journal } from "./stream-writer.ts";
import { formatEventId, type Place } from "../server/link.ts";

/** How a stream is shown to somebody who reads it. */
export interface FeedOptions {
  readonly store: EventStore;
  /** Where it goes on. */
  readonly place: Place;
  /** The journal that this process writes for it, where it does. */
  readonly journalOf: (streamId: string) => Journal | undefined;
  /** True once this process is about to end: who would come back is sent away. */
  readonly isClosing: () => boolean;
  /** Begin with an event that has an id and no data (SEP-1699), so that there is one to come back with. */
  readonly primed: boolean;
  /**
   * When the reader is sent away before the end: `asking`, as soon as the server waits for the client,
   * and when nothing comes; `idle`, only when nothing comes; `never`, for one that would not come back.
   */
  readonly leaves: "asking" | "idle" | "never";
  /** Called before a reader is sent away with a question, with the place of the last event that it took; false where it is not kept. */
  readonly onAsked?: ((place: Place) => Promise<boolean>) | undefined;
  /** Looks after the stream for a reader that stays, while nobody in this process writes it. */
  readonly adopt?: ((page: StreamPage) => Promise<unknown>) | undefined;
  /** Milliseconds for which a reader is kept while there is nothing to read. */
  readonly holdMs: number;
  /** What a reader that is sent away is told to wait, in milliseconds. */
  readonly retryMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * The events after a place as server-sent events, until the answer is there. A reader is sent away with
 * a `retry` as `leaves` says, and when another process works on the request.
 */
export function createFeed(options: FeedOptions): ReadableStream<Uint8Array> {
  const {
    store,
    place,
    journalOf,
    isClosing,
    primed,
    leaves,
    onAsked,
    adopt,
    holdMs,
    retryMs,
    onError,
  } = options;
  const { streamId } = place;
  const gone = new AbortController();
  let { seq } = place;
  const patienceMs = leaves === "never" ? silenceMs : holdMs;
  const elsewhere = new Bell();
  let text = primed ? `id: ${formatEventId(place)}\nretry: ${retryMs}\ndata: \n\n` : "";
  let silentSince = Date.now();

  /** What there is to say now; `undefined` when that is nothing yet. */
  async function next(): Promise<{ readonly text: string; readonly isEnd: boolean } | undefined> {
    if (text !== "") return say("", false);
    const journal = journalOf(streamId);
    const rung = journal?.bell.count ?? 0;
    const page = await store.read(streamId, {
      after: seq,
      now: Date.now(),
      maxEvents: eventsAtOnce,
    });
    if (!page) return say("", true);
    for (const event of page.events) {
      seq = event.seq;
      text += `id: ${formatEventId({ streamId, seq })}\ndata: ${event.text}\n\n`;
    }
    const isEnd = page.isOver && seq === page.lastSeq;
    if (text !== "" || isEnd) return say("", isEnd);
    const isAsking = page.asks.some(({ answer }) => answer === undefined);
    const leftMs = silentSince + patienceMs - Date.now();
    if (leaves === "asking" && isAsking) {
      const isKept = (await onAsked?.({ streamId, seq })) ?? true;
      return say(`retry: ${isKept ? askingRetryMs : retryMs}\n\n`, true);
    }
    const isOut = !journal || leftMs <= 0 || isClosing();
    if (leaves !== "never" && isOut) return say(`retry: ${retryMs}\n\n`, true);
    if (!journal) await adopt?.(page);
    if (leftMs <= 0) return say(": still there\n\n", false);
    const ms = journal ? leftMs : Math.min(leftMs, Math.max(retryMs, leastMs));
    await (journal?.bell ?? elsewhere).wait(rung, { ms, signal: gone.signal });
    return undefined;
  }

  function say(more: string, isEnd: boolean): { readonly text: string; readonly isEnd: boolean } {
    const said = { text: text + more, isEnd };
    text = "";
    silentSince = Date.now();
    return said;
  }

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          while (!gone.signal.aborted) {
            const said = await next();
            if (!said) continue;
            if (gone.signal.aborted) return;
            if (said.text !== "") controller.enqueue(encoder.encode(said.text));
            if (said.isEnd) controller.close();
            return;
          }
        } catch (error) {
          onError(error);
          // not a clean end: the reader comes back
          controller.error(error);
        }
      },
      cancel: () => gone.abort(),
    },
    { highWaterMark: 0 },
  );
}

const encoder = new TextEncoder();
const eventsAtOnce = 64;
/** The reader has to come back only once to hear that its answers are awaited. */
const askingRetryMs = 10;
/** Pause between two looks at a stream that another process writes, also where readers need not wait. */
const leastMs = 100;
/** How long a reader that cannot be sent away is left without a sign, as in the SDK. */
const silenceMs = 15_000;
