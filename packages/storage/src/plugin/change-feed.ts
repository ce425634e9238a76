import { SluiceError } from "@sluice/core";
import type { ChangeBatch, WatchOptions } from "../contract/backend.ts";

/** So many keys wait for a watcher that is slow; then it is told to list again. */
const mostPending = 10_000;

type Change = "changed" | "removed";

/** Hands changes that one source tells of to any number of watchers. */
export interface ChangeFeed {
  /** Reports a change of one key to everyone who watches it. */
  publish(key: string, change: Change): void;
  /** Says that changes may have gone unnoticed: every watcher is told `reset`. */
  reset(): void;
  /** See `StorageBackend.watch`. Changes that wait to be taken are coalesced by key; of more than 10,000 keys, to `reset`. */
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /** Ends every watcher, with an error when there is one. */
  close(error?: Error): void;
}

interface Watcher {
  readonly prefix: string;
  readonly pending: Map<string, Change>;
  missed: boolean;
  ended: boolean;
  error?: Error | undefined;
  wake?: () => void;
}

/** Creates a feed. Its cursors count changes: a resumed watch that missed any begins with `reset`. */
export function createChangeFeed(who: string): ChangeFeed {
  const watchers = new Set<Watcher>();
  const instance = crypto.randomUUID();
  let changes = 0;
  const position = (): string => `${instance}.${changes}`;

  async function* watch(options: WatchOptions): AsyncGenerator<ChangeBatch> {
    const { prefix = "", cursor, signal } = options;
    if (cursor !== undefined && !/^[0-9a-f-]{36}\.\d+$/.test(cursor))
      throw new SluiceError(
        "invalid_argument",
        `${who}: watch: the cursor is not one of this store`,
      );
    const missed = cursor !== undefined && cursor !== position();
    const watcher: Watcher = { prefix, pending: new Map(), missed, ended: signal.aborted };
    const onAbort = (): void => {
      // who aborts may never ask for another batch
      watchers.delete(watcher);
      end(watcher);
    };
    watchers.add(watcher);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      if (!watcher.ended) yield { cursor: position() };
      while (!watcher.ended) {
        const batch = takeBatch(watcher);
        if (batch !== undefined) yield { ...batch, cursor: position() };
        else await new Promise<void>((resolve) => (watcher.wake = resolve));
      }
      if (watcher.error !== undefined) throw watcher.error;
    } finally {
      watchers.delete(watcher);
      signal.removeEventListener("abort", onAbort);
    }
  }

  return {
    watch,
    publish(key, change) {
      changes++;
      for (const watcher of watchers) {
        if (!key.startsWith(watcher.prefix)) continue;
        watcher.pending.set(key, change);
        if (watcher.pending.size > mostPending) watcher.missed = true;
        if (watcher.missed) watcher.pending.clear();
        watcher.wake?.();
      }
    },
    reset() {
      changes++;
      for (const watcher of watchers) {
        watcher.missed = true;
        watcher.pending.clear();
        watcher.wake?.();
      }
    },
    close(error) {
      for (const watcher of watchers) end(watcher, error);
    },
  };
}

function end(watcher: Watcher, error?: Error): void {
  watcher.ended = true;
  watcher.error = error;
  watcher.wake?.();
}

/** What a watcher has to be told, or `undefined` when that is nothing. */
function takeBatch(watcher: Watcher): ChangeBatch | undefined {
  const { pending, missed } = watcher;
  if (!missed && pending.size === 0) return undefined;
  const keysOf = (wanted: Change): string[] =>
    [...pending].filter(([, change]) => change === wanted).map(([key]) => key);
  const batch: ChangeBatch = missed
    ? { reset: true }
    : { changed: keysOf("changed"), removed: keysOf("removed") };
  watcher.missed = false;
  pending.clear();
  return batch;
}
