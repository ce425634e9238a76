import type { ServerResponse } from "node:http";
import { Notifier } from "@sluice/core/internal";
import { isForwarded, ReaderWatch } from "@sluice/core/internal/node";

/** Bounds on how slowly a reader may take its bytes. */
export interface OutflowOptions {
  /**
   * How long a reader may take nothing, in milliseconds. Buffers on the way add a second for every `minBytesPerSecond`
   * bytes they may hold. A source that gives nothing has twice as long. Default: 45 s.
   */
  readonly idleMs?: number;
  /** Bytes that a reader takes in a second at least. Default 4096. */
  readonly minBytesPerSecond?: number;
}

/** Chunks on their way out through one response. */
export interface Outflow {
  /** True once the connection is gone: nothing written from now on arrives. */
  readonly isBroken: boolean;
  /** Bytes handed to the network: of those under way when the connection breaks, some have arrived. */
  readonly sentBytes: number;
  /** Chunks that the network has not taken yet. */
  readonly pendingChunks: number;
  /** Calls `listener` once when the connection goes away; at once when it is gone already. */
  onBroken(listener: () => void): void;
  /**
   * Writes a chunk. `done` is called once the memory of the chunk is no longer in use (true), or if it may still be
   * (false); pass a new function for each chunk.
   */
  write(chunk: Uint8Array, done: (isFree: boolean) => void): void;
  /** Waits until fewer than `count` chunks are under way, or the connection is gone. */
  untilFewerThan(count: number): Promise<void>;
  /** Ends the response, with a last chunk if there is one, and waits for it to be taken. */
  end(chunk?: Uint8Array): Promise<void>;
  /** Takes every listener and timer away. Call it last. */
  dispose(): void;
}

/**
 * Opens the way out of a response; destroys the connection of a reader that is too slow. With `mayPause` the source may be
 * silent for any time.
 */
export function createOutflow(
  res: ServerResponse,
  options: OutflowOptions = {},
  { mayPause = false }: { readonly mayPause?: boolean } = {},
): Outflow {
  const { idleMs = 45_000, minBytesPerSecond } = options;
  const pending = new Set<(isFree: boolean) => void>();
  let isBroken = res.destroyed;
  let isFinished = false;
  let sentBytes = 0;
  const news = new Notifier();
  let brokenListener: (() => void) | undefined;

  const giveUp = (): void => void res.destroy();
  const watch = new ReaderWatch({
    graceMs: idleMs,
    minBytesPerSecond,
    socket: () => res.socket ?? undefined,
    isProxy: isForwarded(res.req.headers),
    onLate: giveUp,
  });
  const onClose = (): void => {
    isBroken ||= !isFinished;
    news.notify();
    if (isBroken) brokenListener?.();
  };
  const onFinish = (): void => {
    // Node emits it even for bytes that were lost when the connection broke
    const { destroyed, errored } = res.req.socket;
    if (destroyed || errored) isBroken = true;
    else isFinished = true;
    news.notify();
  };
  const { socket } = res;
  res.on("close", onClose);
  res.on("finish", onFinish);
  const sourceMs = 2 * idleMs;
  const onTimeout = (): void => {
    // nothing is pending, so the source is late; storage has a shorter deadline of its own, event streams may be silent
    if (pending.size === 0 && !mayPause) giveUp();
    else res.setTimeout(sourceMs);
  };
  res.setTimeout(sourceMs, onTimeout);

  function track(done: (isFree: boolean) => void, bytes: number): void {
    pending.add(done);
    sentBytes += bytes;
  }

  async function waitWhile(condition: () => boolean): Promise<void> {
    // oxlint-disable-next-line no-unmodified-loop-condition -- onClose modifies it
    while (!isBroken && condition()) await news.wait();
  }

  return {
    get isBroken() {
      return isBroken;
    },
    get sentBytes() {
      return sentBytes;
    },
    get pendingChunks() {
      return pending.size;
    },
    onBroken(listener) {
      brokenListener = listener;
      if (isBroken) listener();
    },
    write(chunk, done) {
      track(done, chunk.byteLength);
      res.write(chunk, (error) => {
        if (error) isBroken = true;
        if (pending.delete(done)) done(true);
        news.notify();
      });
      watch.begin();
    },
    untilFewerThan: (count) => waitWhile(() => pending.size >= count),
    async end(chunk) {
      track(lastChunk, chunk?.byteLength ?? 0);
      // ended already when the whole response was sent at once and is still on its way
      if (!res.writableEnded) res.end(chunk);
      watch.begin();
      await waitWhile(() => !isFinished);
      pending.delete(lastChunk);
    },
    dispose() {
      watch.close();
      res.off("close", onClose);
      res.off("finish", onFinish);
      res.off("timeout", onTimeout);
      // the server sets its own timeout for idle connections; a socket without one must not keep ours
      if (socket?.timeout === sourceMs) socket.setTimeout(0);
      for (const done of pending) done(false);
      pending.clear();
    },
  };
}

/** Stands for the last chunk among those under way. */
const lastChunk = (): void => {};
