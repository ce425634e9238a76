import { SluiceError } from "@sluice/core";
import { backgroundClock, onAbort } from "@sluice/core/async";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import type { FsRoot } from "../root/root.ts";
import { createWatchedTree } from "./watched-tree.ts";

/** Changes gather for at least so long before directories are read again. */
const gatherMs = 50;
/** A change waits no longer than this, however slow reading is. */
const mostGatherMs = 1000;
/** Everything is read again this often: what systems tell about changes has gaps. */
const rereadMs = 30_000;

/** Watches a root for changes. */
export interface FsWatch {
  watch(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /** Ends every watch. */
  close(): void;
}

/** Creates the watches of a root. Each watch remembers a line about every file it reaches. */
export function createFsWatch(root: FsRoot): FsWatch {
  const running = new Set<() => void>();

  async function* watch({
    prefix = "",
    cursor,
    signal,
  }: WatchOptions): AsyncGenerator<ChangeBatch> {
    if (cursor !== undefined)
      throw new SluiceError("invalid_argument", "fs: watch: the cursor is not one of this store");
    let ended = false;
    let woken = false;
    let look: (() => void) | undefined;
    /** Waits for at most so long, less when `isOver` after something happened. It keeps no process alive. */
    const pause = async (ms: number, isOver: () => boolean): Promise<void> => {
      if (isOver()) return;
      await new Promise<void>((resolve) => {
        const cancel = backgroundClock.schedule(resolve, ms);
        look = () => {
          if (!isOver()) return;
          cancel();
          resolve();
        };
      });
    };
    const tree = createWatchedTree(root, prefix, () => {
      woken = true;
      look?.();
    });
    const end = (): void => {
      ended = true;
      tree.close();
      look?.();
    };
    running.add(end);
    const removeListener = onAbort(signal, end);
    try {
      if (ended) return;
      await tree.refresh(true);
      if (!ended) yield {};
      let nextReread = performance.now() + rereadMs;
      let lastedMs = 0;
      for (;;) {
        await pause(nextReread - performance.now(), () => ended || woken);
        // what is slow to read and changes all the time is read a fifth of the time
        await pause(Math.min(Math.max(gatherMs, 4 * lastedMs), mostGatherMs), () => ended);
        if (ended) return;
        woken = false;
        const startedAt = performance.now();
        const isDue = startedAt >= nextReread;
        const { changed, removed } = await tree.refresh(isDue);
        const now = performance.now();
        lastedMs = now - startedAt;
        if (isDue) nextReread = now + rereadMs;
        if (!ended && changed.size + removed.size > 0)
          yield { changed: [...changed], removed: [...removed] };
      }
    } finally {
      end();
      running.delete(end);
      removeListener();
    }
  }

  return {
    watch,
    close() {
      for (const end of running) end();
    },
  };
}
