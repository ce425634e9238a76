import { backgroundClock, onAbort, sleep } from "@sluice/core/internal";
import type { ChangeBatch, WatchOptions } from "../contract/backend.ts";
import { type ChangeFeed, createChangeFeed } from "./change-feed.ts";

/** Maximum keys whose newest event is remembered. */
const maxRemembered = 10_000;

/**
 * Creates watches that share one reader of a queue of events. `read` takes events and publishes them to the feed until its
 * signal aborts; it runs while at least one watch is open. An error of `read` ends every watch.
 */
export function createEventWatch(
  name: string,
  read: (feed: ChangeFeed, signal: AbortSignal) => Promise<void>,
): Watches {
  const feed = createChangeFeed(name);
  const open = new Set<object>();
  let reading: AbortController | undefined;

  const startReading = (): void => {
    if (reading !== undefined) return;
    const { signal } = (reading = new AbortController());
    read(feed, signal).catch((error: Error) => {
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
    const me = {};
    const leave = (): void => {
      if (open.delete(me) && open.size === 0) stopReading();
    };
    const removeListener = onAbort(signal, leave);
    try {
      for await (const batch of feed.watch(options)) {
        // the feed holds changes for this watch from its first batch on
        if (!signal.aborted) {
          open.add(me);
          startReading();
        }
        yield batch;
      }
    } finally {
      removeListener();
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
 * Tells new events from repeated and late ones: queues deliver at least once and in any order. The result is true for
 * an event without a sequencer, and for one whose sequencer is newer than the newest of its key.
 */
export function createEventOrder(
  isNewer: (sequencer: string, than: string) => boolean,
): (key: string, sequencer: string | undefined) => boolean {
  const newest = new Map<string, string>();
  return (key, sequencer) => {
    if (sequencer === undefined) return true;
    const last = newest.get(key);
    if (last !== undefined && !isNewer(sequencer, last)) return false;
    newest.delete(key);
    newest.set(key, sequencer);
    const [oldest] = newest.keys();
    if (newest.size > maxRemembered && oldest !== undefined) newest.delete(oldest);
    return true;
  };
}

/** The watches of one backend. */
export interface Watches {
  /** See `StorageBackend.watch`. */
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  close(): void;
}

/**
 * Creates watches that end normally: by their signal, by `close`, or when their reader leaves.
 * `run` is one watch. Its signal aborts in each of these cases; later exceptions of it are ignored.
 */
export function createWatches(run: (options: WatchOptions) => AsyncIterable<ChangeBatch>): Watches {
  const open = new Set<() => void>();

  async function* watch(options: WatchOptions): AsyncGenerator<ChangeBatch> {
    const controller = new AbortController();
    const end = (): void => {
      open.delete(end);
      controller.abort();
    };
    open.add(end);
    // after an abort the reader may never ask for another batch
    const removeListener = onAbort(options.signal, end);
    try {
      yield* run({ ...options, signal: controller.signal });
    } catch (error) {
      if (!controller.signal.aborted) throw error;
    } finally {
      removeListener();
      end();
    }
  }

  return {
    watch,
    close() {
      for (const end of open) end();
    },
  };
}

/** A wait between two looks for changes. */
export interface Pause {
  /** Ends the current wait, or the next one at once. */
  readonly cutShort: () => void;
  /** Rejects with `signal.reason` when the watch ends. It keeps no process alive. */
  wait(ms: number): Promise<void>;
}

/** Creates the pauses of one watch, whose signal ends them. */
export function createPause(signal: AbortSignal): Pause {
  let cut = new AbortController();
  const cutShort = (): void => cut.abort();
  onAbort(signal, cutShort);
  return {
    cutShort,
    async wait(ms) {
      await sleep(ms, cut.signal, backgroundClock).catch(() => signal.throwIfAborted());
      cut = new AbortController();
    },
  };
}
