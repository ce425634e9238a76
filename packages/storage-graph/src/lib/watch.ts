import { SluiceError } from "@sluice/core";
import { backgroundClock, onAbort, sleep } from "@sluice/core/async";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { formatCursor, parseCursor } from "@sluice/storage/plugin";
import type { Address } from "./address.ts";
import { readDelta } from "./delta.ts";
import { createDeltaTree, type DeltaTree } from "./delta-tree.ts";
import type { DriveItem } from "./drive-item.ts";
import type { GraphClient } from "./graph-client.ts";
import type { Notifications } from "./notifications.ts";

/** Settings of {@link createGraphWatch}. */
export interface GraphWatchOptions {
  readonly client: GraphClient;
  readonly address: Address;
  /** Longest time between two looks, in milliseconds. */
  readonly intervalMs: number;
  readonly notifications: Notifications | undefined;
}

/** Watches a root for changes. */
export interface GraphWatch {
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /** Ends every watch. */
  close(): void;
}

interface State {
  readonly tree: DeltaTree;
  readonly link: string;
}

/**
 * Creates the watches of a root. The delta link comes before the first batch, so a subscription
 * that is made afterwards has no gap: what happens between is in the next look.
 */
export function createGraphWatch(options: GraphWatchOptions): GraphWatch {
  const { client, address, intervalMs, notifications } = options;
  const running = new Set<AbortController>();

  const begin = async (prefix: string, signal: AbortSignal): Promise<State> => {
    const target = address.toKey("");
    const root = await client.ask({ target, expect: [200], operation: "graph: watch", signal });
    const tree = createDeltaTree((root.body as DriveItem).id ?? "", prefix);
    const delta = await readDelta(options, undefined, signal);
    if (delta === undefined)
      throw new SluiceError("unavailable", "graph: watch: the service starts again and again");
    tree.apply(delta.items);
    return { tree, link: delta.link };
  };

  async function* watch({
    prefix = "",
    cursor,
    signal,
  }: WatchOptions): AsyncGenerator<ChangeBatch> {
    const scope = `${address.delta}\n${address.toKey("")}`;
    let missed = cursor === undefined ? undefined : parseCursor(cursor, "graph: watch", scope);
    const ender = new AbortController();
    const end = (): void => ender.abort();
    running.add(ender);
    const removeListener = onAbort(signal, end);
    const pause = createPause(ender.signal);
    const unsubscribe = notifications?.onChange(() => pause.cutShort());
    try {
      let { tree, link } = await begin(prefix, ender.signal);
      yield { cursor: formatCursor(link, scope) };
      for (let pauseMs = missed === undefined ? intervalMs : 0; ; pauseMs = intervalMs) {
        await pause.wait(pauseMs);
        try {
          const delta = await readDelta(options, missed ?? link, ender.signal);
          missed = undefined;
          if (delta === undefined) {
            ({ tree, link } = await begin(prefix, ender.signal));
            yield { reset: true, cursor: formatCursor(link, scope) };
            continue;
          }
          const { changed, removed, isLost } = tree.apply(delta.items);
          ({ link } = delta);
          const next = formatCursor(link, scope);
          if (isLost) yield { reset: true, cursor: next };
          else if (changed.length + removed.length > 0) yield { changed, removed, cursor: next };
        } catch (error) {
          if (!SluiceError.is(error) || !error.retryable) throw error;
          // looking again later is what a watch does anyway
          await sleep(Math.max(intervalMs, error.retryAfterMs ?? 0), ender.signal, backgroundClock);
        }
      }
    } catch (error) {
      if (!ender.signal.aborted) throw error;
    } finally {
      end();
      unsubscribe?.();
      running.delete(ender);
      removeListener();
    }
  }

  return {
    watch,
    close() {
      for (const ender of running) ender.abort();
    },
  };
}

/** Waits between two looks. */
interface Pause {
  /** Ends the wait under way, or the next one at once. */
  cutShort(): void;
  /** Rejects when the signal aborts. It keeps no process alive. */
  wait(ms: number): Promise<void>;
}

function createPause(signal: AbortSignal): Pause {
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
