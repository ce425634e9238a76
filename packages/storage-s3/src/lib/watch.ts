import { SluiceError } from "@sluice/core";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { createChangeFeed } from "@sluice/storage/plugin";
import type { Root } from "./root.ts";
import { isNewer, readEvents, type S3Event } from "./s3-event.ts";

/** For so many keys it is remembered which event was the last, to know late and repeated ones. */
const mostRemembered = 10_000;

/** One message of the queue that a bucket sends its events to. */
export interface S3EventMessage {
  /** The text of the message: an S3 event notification as JSON, bare or in an envelope of SNS. */
  readonly body: string;
}

/**
 * A queue of event notifications, such as one of SQS. Each process needs a queue of its own: a
 * message is given to one reader only.
 */
export interface S3EventSource {
  /** Waits for messages; none after a while is fine. An abort of the signal ends the wait. */
  receive(options: { readonly signal: AbortSignal }): Promise<readonly S3EventMessage[]>;
  /** Deletes these messages from the queue. Called once their changes were handed on. */
  ack(messages: readonly S3EventMessage[]): Promise<void>;
}

/** Tells about changes from a queue. */
export interface S3Watcher {
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  close(): void;
}

/**
 * Creates a watcher. The queue is read while somebody watches and keeps its messages otherwise, so a
 * watch that goes on from its cursor misses nothing, or begins with `reset`.
 */
export function createS3Watcher(root: Root, source: S3EventSource): S3Watcher {
  const feed = createChangeFeed("s3");
  const isOld = createSequence();
  const watchers = new Set<object>();
  let reading: AbortController | undefined;

  const read = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const messages = await source.receive({ signal });
      for (const { body } of messages) {
        const events = readEvents(body, root);
        if (events === undefined) feed.reset();
        else for (const event of events) if (!isOld(event)) feed.publish(event.key, event.change);
      }
      if (messages.length > 0) await source.ack(messages);
    }
  };
  const startReading = (): void => {
    if (reading !== undefined) return;
    const mine = new AbortController();
    reading = mine;
    read(mine.signal).catch((cause: unknown) => {
      if (mine.signal.aborted) return;
      stopReading();
      feed.close(new SluiceError("unavailable", "s3: watch: the event queue failed", { cause }));
    });
  };
  const stopReading = (): void => {
    reading?.abort();
    reading = undefined;
  };

  async function* watch(options: WatchOptions): AsyncGenerator<ChangeBatch> {
    const me = {};
    const leave = (): void => {
      if (watchers.delete(me) && watchers.size === 0) stopReading();
    };
    options.signal.addEventListener("abort", leave, { once: true });
    try {
      for await (const batch of feed.watch(options)) {
        // from here on a change is noticed: the feed has this watcher
        if (!options.signal.aborted) {
          watchers.add(me);
          startReading();
        }
        yield batch;
      }
    } finally {
      options.signal.removeEventListener("abort", leave);
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

/** Tells events that come again or after newer ones of their key. Without a sequencer none is old. */
function createSequence(): (event: S3Event) => boolean {
  const newest = new Map<string, string>();
  return ({ key, sequencer }) => {
    if (sequencer === undefined) return false;
    const last = newest.get(key);
    if (last !== undefined && !isNewer(sequencer, last)) return true;
    newest.delete(key);
    newest.set(key, sequencer);
    const [oldest] = newest.keys();
    if (newest.size > mostRemembered && oldest !== undefined) newest.delete(oldest);
    return false;
  };
}
