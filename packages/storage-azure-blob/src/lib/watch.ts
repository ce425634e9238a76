import { setMaxListeners } from "node:events";
import { SluiceError } from "@sluice/core";
import { backgroundClock, sleep } from "@sluice/core/internal";
import {
  type ChangeFeed,
  createEventOrder,
  createEventWatch,
  type Watches,
} from "@sluice/storage/plugin";
import { type BlobChange, parseMessage } from "./blob-events.ts";
import type { BlobRoot } from "./container.ts";
import { request } from "./request.ts";

const operation = "azure-blob: watch";
/** Largest batch of a storage queue. */
const maxMessages = 32;

/** A message as a storage queue gives it. */
export interface QueuedMessage {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly messageText: string;
}

/**
 * The queue that an Event Grid subscription of the storage account delivers to. A `QueueClient` of
 * `@azure/storage-queue` fits as it is. Each process needs its own queue: a message goes to one
 * reader.
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

/** Creates the watches of a root. One reader of the queue serves all of them; without a watch the queue is not read. */
export function watchBlobs(root: BlobRoot, queue: EventQueue, pollIntervalMs: number): Watches {
  // the sequencers of one blob are in the order of its changes when they are compared as text
  const isNew = createEventOrder((sequencer, than) => sequencer > than);

  const publish = (feed: ChangeFeed, change: BlobChange): void => {
    if (change.kind === "lost") feed.reset();
    else if (isNew(change.key, change.sequencer)) feed.publish(change.key, change.kind);
  };
  const readOnce = async (feed: ChangeFeed, signal: AbortSignal): Promise<boolean> => {
    const { receivedMessageItems: messages } = await request({ operation, signal }, (abortSignal) =>
      queue.receiveMessages({ numberOfMessages: maxMessages, abortSignal }),
    );
    for (const { messageText } of messages)
      for (const change of parseMessage(messageText, root)) publish(feed, change);
    // only now: after a crash here the messages come again, as do those that cannot be deleted
    await Promise.allSettled(
      messages.map(({ messageId, popReceipt }) =>
        request({ operation, signal }, (abortSignal) =>
          queue.deleteMessage(messageId, popReceipt, { abortSignal }),
        ),
      ),
    );
    return messages.length > 0;
  };

  return createEventWatch("azure-blob", async (feed, signal) => {
    // each message of a batch is deleted by its own request, and all of them listen
    setMaxListeners(maxMessages, signal);
    while (!signal.aborted) {
      let pauseMs = pollIntervalMs;
      try {
        if (await readOnce(feed, signal)) continue;
      } catch (error) {
        if (!SluiceError.is(error) || !error.retryable) throw error;
        // messages wait in the queue, so nothing is lost
        pauseMs = Math.max(pollIntervalMs, error.retryAfterMs ?? 0);
      }
      await sleep(pauseMs, signal, backgroundClock);
    }
  });
}
