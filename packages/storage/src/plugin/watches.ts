import { backgroundClock, onAbort, sleep } from "@sluice/core/internal";
import type { ChangeBatch, WatchOptions } from "../contract/backend.ts";

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
