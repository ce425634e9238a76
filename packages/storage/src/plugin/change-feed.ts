import { SluiceError } from "@sluice/core";
import { Notifier, onAbort } from "@sluice/core/internal";
import type { ChangeBatch, WatchOptions } from "../contract/backend.ts";

/** Maximum keys that wait for a slow reader; it then gets `reset`. */
const maxPending = 10_000;

type Change = "changed" | "removed";

/** Hands the changes of one source to any number of watches. */
export interface ChangeFeed {
  /** Reports a change of one key to every watch of its prefix. */
  publish(key: string, change: Change): void;
  /** Reports that changes may be lost: every watch gets `reset`. */
  reset(): void;
  /** See `StorageBackend.watch`. Changes that wait to be taken are coalesced by key; of more than 10,000 keys, to `reset`. */
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /** Ends every watch, with the error when there is one. */
  close(error?: Error): void;
}

interface OpenWatch {
  readonly prefix: string;
  readonly pending: Map<string, Change>;
  readonly news: Notifier;
  missed: boolean;
  ended: boolean;
  error?: Error | undefined;
}

/** Creates a feed. Its cursors count changes: a resumed watch that missed any begins with `reset`. */
export function createChangeFeed(name: string): ChangeFeed {
  const watches = new Set<OpenWatch>();
  const instance = crypto.randomUUID();
  let changes = 0;
  const position = (): string => `${instance}.${changes}`;

  async function* watch(options: WatchOptions): AsyncGenerator<ChangeBatch> {
    const { prefix = "", cursor, signal } = options;
    if (cursor !== undefined && !/^[0-9a-f-]{36}\.\d+$/.test(cursor))
      throw new SluiceError(
        "invalid_argument",
        `${name}: watch: the cursor is not one of this store`,
      );
    const hasMissed = cursor !== undefined && cursor !== position();
    const news = new Notifier();
    const reader: OpenWatch = { prefix, pending: new Map(), news, missed: hasMissed, ended: false };
    watches.add(reader);
    const removeListener = onAbort(signal, () => {
      // after an abort the reader may never ask for another batch
      watches.delete(reader);
      end(reader);
    });
    try {
      if (!reader.ended) yield { cursor: position() };
      while (!reader.ended) {
        const batch = takeBatch(reader);
        if (batch !== undefined) yield { ...batch, cursor: position() };
        else await news.wait();
      }
      if (reader.error !== undefined) throw reader.error;
    } finally {
      watches.delete(reader);
      removeListener();
    }
  }

  return {
    watch,
    publish(key, change) {
      changes++;
      for (const reader of watches) {
        if (!key.startsWith(reader.prefix)) continue;
        reader.pending.set(key, change);
        if (reader.pending.size > maxPending) reader.missed = true;
        if (reader.missed) reader.pending.clear();
        reader.news.notify();
      }
    },
    reset() {
      changes++;
      for (const reader of watches) {
        reader.missed = true;
        reader.pending.clear();
        reader.news.notify();
      }
    },
    close(error) {
      for (const reader of watches) end(reader, error);
    },
  };
}

function end(reader: OpenWatch, error?: Error): void {
  reader.ended = true;
  reader.error = error;
  reader.news.notify();
}

/** The changes that wait for a watch, or `undefined` when there are none. */
function takeBatch(reader: OpenWatch): ChangeBatch | undefined {
  const { pending, missed } = reader;
  if (!missed && pending.size === 0) return undefined;
  const keysOf = (wanted: Change): string[] =>
    [...pending].filter(([, change]) => change === wanted).map(([key]) => key);
  const batch: ChangeBatch = missed
    ? { reset: true }
    : { changed: keysOf("changed"), removed: keysOf("removed") };
  reader.missed = false;
  pending.clear();
  return batch;
}
