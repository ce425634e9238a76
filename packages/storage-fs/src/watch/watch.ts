import { SluiceError } from "@sluice/core";
import { backgroundClock, onAbort, sleep } from "@sluice/core/async";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import { createPause, createWatches, type Watches } from "@sluice/storage/plugin";
import type { FsRoot } from "../root/root.ts";
import { createWatchedTree } from "./watched-tree.ts";

/** Changes gather for at least so long before directories are read again. */
const gatherMs = 50;
/** A change waits no longer than this, however slow reading is. */
const maxGatherMs = 1000;
/** Everything is read again this often: change events of systems have gaps. */
const rereadMs = 30_000;

/** Creates the watches of a root. Each watch remembers a line about every file it reaches. */
export function createFsWatch(root: FsRoot): Watches {
  async function* run({ prefix = "", cursor, signal }: WatchOptions): AsyncGenerator<ChangeBatch> {
    if (cursor !== undefined)
      throw new SluiceError("invalid_argument", "fs: watch: the cursor is not one of this store");
    const pause = createPause(signal);
    const tree = createWatchedTree(root, prefix, pause.cutShort);
    onAbort(signal, () => tree.close());
    await tree.refresh(true);
    signal.throwIfAborted();
    yield {};
    let nextReread = performance.now() + rereadMs;
    let lastedMs = 0;
    for (;;) {
      await pause.wait(nextReread - performance.now());
      // a folder that is slow to read and changes all the time is read a fifth of the time
      const gather = Math.min(Math.max(gatherMs, 4 * lastedMs), maxGatherMs);
      await sleep(gather, signal, backgroundClock);
      const startedAt = performance.now();
      const isDue = startedAt >= nextReread;
      const { changed, removed } = await tree.refresh(isDue);
      signal.throwIfAborted();
      const now = performance.now();
      lastedMs = now - startedAt;
      if (isDue) nextReread = now + rereadMs;
      if (changed.size + removed.size > 0) yield { changed: [...changed], removed: [...removed] };
    }
  }

  return createWatches(run);
}
