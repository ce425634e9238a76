import { SluiceError } from "@sluice/core";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { formatCursor, parseCursor } from "@sluice/storage/plugin";
import type { Address } from "./address.ts";
import { readDelta } from "./delta.ts";
import { createDeltaTree, type DeltaTree } from "./delta-tree.ts";
import type { DriveItem } from "./drive-item.ts";
import type { GraphClient } from "./graph-client.ts";
import type { Notifications } from "./notifications.ts";

/** Settings of {@link createWatcher}. */
export interface WatcherOptions {
  readonly client: GraphClient;
  readonly address: Address;
  /** Longest time between two looks, in milliseconds. */
  readonly intervalMs: number;
  readonly notifications: Notifications | undefined;
}

/** Longer timers would fire at once. */
const longestMs = 2 ** 31 - 1;

/** Watches a root for changes. */
export interface Watcher {
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /** Ends every watch. */
  close(): void;
}

interface State {
  readonly tree: DeltaTree;
  readonly link: string;
}

/**
 * Creates the watcher of a root. The delta link comes before the first batch, so whoever makes
 * a subscription afterwards has no gap: what happens between is in the next look.
 */
export function createWatcher(options: WatcherOptions): Watcher {
  const { client, address, intervalMs, notifications } = options;
  const running = new Set<AbortController>();

  const begin = async (prefix: string, signal: AbortSignal): Promise<State> => {
    const target = address.toKey("");
    const root = await client.ask({ target, expect: [200], who: "graph: watch", signal });
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
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const bell = createBell(ender.signal);
    const unsubscribe = notifications?.onChange(() => bell.ring());
    try {
      let { tree, link } = await begin(prefix, ender.signal);
      yield { cursor: formatCursor(link, scope) };
      for (let pauseMs = missed === undefined ? intervalMs : 0; ; pauseMs = intervalMs) {
        await bell.wait(pauseMs);
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
          await bell.wait(Math.max(intervalMs, error.retryAfterMs ?? 0), true);
        }
      }
    } catch (error) {
      if (!ender.signal.aborted) throw error;
    } finally {
      end();
      unsubscribe?.();
      running.delete(ender);
      signal.removeEventListener("abort", end);
    }
  }

  return {
    watch,
    close() {
      for (const ender of running) ender.abort();
    },
  };
}

/** Waits that somebody may cut short. */
interface Bell {
  /** Remembered when nobody waits. */
  ring(): void;
  /** Rejects when the signal aborts. A `deaf` wait is not cut short. It keeps no process alive. */
  wait(ms: number, deaf?: boolean): Promise<void>;
}

function createBell(signal: AbortSignal): Bell {
  let isRung = false;
  let wake: (() => void) | undefined;
  return {
    ring() {
      isRung = true;
      wake?.();
    },
    async wait(ms, deaf = false) {
      signal.throwIfAborted();
      if (!deaf && isRung) {
        isRung = false;
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const stop = (): void => {
          clearTimeout(timer);
          wake = undefined;
          signal.removeEventListener("abort", onAbort);
        };
        const done = (): void => {
          stop();
          resolve();
        };
        const onAbort = (): void => {
          stop();
          reject(signal.reason);
        };
        const timer = setTimeout(done, Math.min(ms, longestMs)).unref();
        if (!deaf) wake = done;
        signal.addEventListener("abort", onAbort, { once: true });
      });
      if (!deaf) isRung = false;
    },
  };
}
