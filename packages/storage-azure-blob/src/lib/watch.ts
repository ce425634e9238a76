import { setMaxListeners } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { SluiceError } from "@sluice/core";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { createChangeFeed } from "@sluice/storage/plugin";
import { type BlobChange, parseMessage } from "./blob-events.ts";
import type { Root } from "./container.ts";
import { request } from "./request.ts";

const who = "azure-blob: watch";
/** Largest batch of a storage queue. */
const mostMessages = 32;
/** How many blobs the order of events is remembered for. */
const mostSequencers = 10_000;

/** Longer timers would fire at once. */
const longestMs = 2 ** 31 - 1;

/** A message as a storage queue gives it. */
export interface QueuedMessage {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly messageText: string;
}

/**
 * The queue that an Event Grid subscription of the storage account delivers to. A `QueueClient` of
 * `@azure/storage-queue` fits as it is. Each process needs a queue of its own: a message goes to one reader.
 */
export interface EventQueue {
  receiveMessages(options: {
    readonly numberOfMessages: number;
    readonly abortSignal: AbortSignal;
  }): Promise<{ readonly receivedMessageItems: readonly QueuedMessage[] }>;
  deleteMessage(
    messageId: string,
    popReceipt: string,
    options: { readonly abortSignal: AbortSignal },
  ): Promise<unknown>;
}

/** Watches a root through a queue of events. */
export interface Watcher {
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /** Ends every watch. */
  close(): void;
}

/** One reader of the queue serves all watches, and there is none while nobody watches. */
export function createWatcher(root: Root, queue: EventQueue, pollMs: number): Watcher {
  const feed = createChangeFeed("azure-blob");
  const isNews = createOrder();
  let watches = 0;
  let reading: AbortController | undefined;

  const tell = (change: BlobChange): void => {
    if (change.kind === "lost") feed.reset();
    else if (isNews(change.key, change.sequencer)) feed.publish(change.key, change.kind);
  };
  const readOnce = async (signal: AbortSignal): Promise<boolean> => {
    const { receivedMessageItems: messages } = await request({ who, signal }, (abortSignal) =>
      queue.receiveMessages({ numberOfMessages: mostMessages, abortSignal }),
    );
    for (const { messageText } of messages)
      for (const change of parseMessage(messageText, root)) tell(change);
    // only now: what a process that dies here has not told comes again, as does what cannot be deleted
    await Promise.allSettled(
      messages.map(({ messageId, popReceipt }) =>
        request({ who, signal }, (abortSignal) =>
          queue.deleteMessage(messageId, popReceipt, { abortSignal }),
        ),
      ),
    );
    return messages.length > 0;
  };
  const read = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      let pauseMs = pollMs;
      try {
        if (await readOnce(signal)) continue;
      } catch (error) {
        if (!SluiceError.is(error) || !error.retryable) throw error;
        // messages wait in the queue meanwhile, so nothing is lost
        pauseMs = Math.min(Math.max(pollMs, error.retryAfterMs ?? 0), longestMs);
      }
      await wait(pauseMs, undefined, { signal, ref: false });
    }
  };
  const startReading = (): void => {
    if (reading !== undefined) return;
    const { signal } = (reading = new AbortController());
    // each message of a batch is deleted by a request of its own, and all of them listen
    setMaxListeners(mostMessages, signal);
    read(signal).catch((error: Error) => {
      if (signal.aborted) return;
      stopReading();
      feed.close(error);
    });
  };
  const stopReading = (): void => {
    reading?.abort();
    reading = undefined;
  };

  async function* watch(options: WatchOptions): AsyncGenerator<ChangeBatch> {
    const { signal } = options;
    let isThere = true;
    const leave = (): void => {
      if (isThere && --watches === 0) stopReading();
      isThere = false;
    };
    watches++;
    startReading();
    signal.addEventListener("abort", leave, { once: true });
    try {
      yield* feed.watch(options);
    } finally {
      signal.removeEventListener("abort", leave);
      leave();
    }
  }

  return {
    watch,
    close() {
      stopReading();
      feed.close();
    },
  };
}

/**
 * Tells news from what comes twice or too late: events come at least once and in any order, and the
 * sequencers of one blob are in the order of its changes when they are compared as text.
 */
function createOrder(): (key: string, sequencer: string) => boolean {
  const newest = new Map<string, string>();
  return (key, sequencer) => {
    const known = newest.get(key) ?? "";
    if (sequencer !== "" && sequencer <= known) return false;
    newest.delete(key);
    newest.set(key, sequencer > known ? sequencer : known);
    const [oldest] = newest.keys();
    if (newest.size > mostSequencers && oldest !== undefined) newest.delete(oldest);
    return true;
  };
}
