import { SluiceError } from "@sluice/core";
import { createEventOrder, createEventWatch, type Watches } from "@sluice/storage/plugin";
import type { S3Root } from "./root.ts";
import { isNewer, readEvents } from "./s3-event.ts";

/** One message of the queue that a bucket sends its events to. */
export interface S3EventMessage {
  /** The text of the message: an S3 event notification as JSON, bare or in an envelope of SNS. */
  readonly body: string;
}

/**
 * A queue of event notifications, such as one of SQS. Each process needs its own queue: a message
 * is given to only one reader.
 */
export interface S3EventSource {
  /** Waits for messages; none after a while is fine. An abort of the signal ends the wait. */
  receive(options: { readonly signal: AbortSignal }): Promise<readonly S3EventMessage[]>;
  /** Deletes these messages from the queue. Called once their changes were handed on. */
  ack(messages: readonly S3EventMessage[]): Promise<void>;
}

/**
 * Creates the watches of a root. The queue is read while a watch is open and keeps its messages
 * otherwise, so a watch that resumes from its cursor misses nothing, or begins with `reset`.
 */
export function watchObjects(root: S3Root, source: S3EventSource): Watches {
  const isNew = createEventOrder(isNewer);
  return createEventWatch("s3", async (feed, signal) => {
    try {
      while (!signal.aborted) {
        const messages = await source.receive({ signal });
        for (const { body } of messages) {
          const events = readEvents(body, root);
          if (events === undefined) feed.reset();
          for (const { key, change, sequencer } of events ?? [])
            if (isNew(key, sequencer)) feed.publish(key, change);
        }
        if (messages.length > 0) await source.ack(messages);
      }
    } catch (cause) {
      throw new SluiceError("unavailable", "s3: watch: the event queue failed", { cause });
    }
  });
}
