import type { ServerResponse } from "node:http";
import { Notifier } from "@sluice/core/internal";
import { isForwarded, ReaderWatch } from "@sluice/core/internal/node";

/** Bounds on how slowly a reader may take its bytes. */
export interface OutflowOptions {
  /**
   * Longest time in which a reader takes nothing, in milliseconds; a second more for every `minBytesPerSecond` bytes that buffers
   * on the way to it may hold. A source that gives nothing has twice as long. Default: 45 s.
   */
  readonly stallTimeoutMs?: number;
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
  readonly underWay: number;
  /** Calls `listener` once when the connection goes away; at once when it is gone already. */
  onBroken(listener: () => void): void;
  /** Hands a chunk over. `done`, a function of this chunk alone, is called when the network has taken it, or never will. */
  write(chunk: Uint8Array, done: (flushed: boolean) => void): void;
  /** Waits until fewer than `count` chunks are under way, or the connection is gone. */
  fewerThan(count: number): Promise<void>;
  /** Ends the response, with a last chunk if there is one, and waits for it to be taken. */
  end(chunk?: Uint8Array): Promise<void>;
  /** Takes every listener and timer away. Call it last. */
  dispose(): void;
}

/**
 * Opens the way out of a response; a reader that is too slow has its connection destroyed. With `mayRest` there is nothing to
 * be late with between chunks.
 */
export function createOutflow(
  res: ServerResponse,
  options: OutflowOptions = {},
  { mayRest = false }: { readonly mayRest?: boolean } = {},
): Outflow {
  const { stallTimeoutMs = 45_000, minBytesPerSecond } = options;
  const pending = new Set<(flushed: boolean) => void>();
  let isBroken = res.destroyed;
  let isFinished = false;
  let sentBytes = 0;
  const news = new Notifier();
  let tellBroken: (() => void) | undefined;

  const giveUp = (): void => void res.destroy();
  const reader = new ReaderWatch({
    graceMs: stallTimeoutMs,
    minBytesPerSecond,
    socket: () => res.socket ?? undefined,
    isProxy: isForwarded(res.req.headers),
    onLate: giveUp,
  });
  const onClose = (): void => {
    isBroken ||= !isFinished;
    news.notify();
    if (isBroken) tellBroken?.();
  };
  const onFinish = (): void => {
    // Node says it also of bytes that the connection took with it when it broke
    const { destroyed, errored } = res.req.socket;
    if (destroyed || errored) isBroken = true;
    else isFinished = true;
    news.notify();
  };
  const { socket } = res;
  res.on("close", onClose);
  res.on("finish", onFinish);
  const sourceMs = 2 * stallTimeoutMs;
  const onTimeout = (): void => {
    // storage has a deadline of its own, which says so to the reader; events have come to rest
    if (pending.size === 0 && !mayRest) giveUp();
    else res.setTimeout(sourceMs);
  };
  res.setTimeout(sourceMs, onTimeout);

  function begin(chunk: (flushed: boolean) => void, bytes: number): void {
    pending.add(chunk);
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
    get underWay() {
      return pending.size;
    },
    onBroken(listener) {
      tellBroken = listener;
      if (isBroken) listener();
    },
    write(chunk, done) {
      begin(done, chunk.byteLength);
      res.write(chunk, (error) => {
        if (error) isBroken = true;
        if (pending.delete(done)) done(true);
        news.notify();
      });
      reader.begin();
    },
    fewerThan: (count) => waitWhile(() => pending.size >= count),
    async end(chunk) {
      begin(lastChunk, chunk?.byteLength ?? 0);
      // ended already when the whole answer was sent at once and is still on its way
      if (!res.writableEnded) res.end(chunk);
      reader.begin();
      await waitWhile(() => !isFinished);
      pending.delete(lastChunk);
    },
    dispose() {
      reader.close();
      res.off("close", onClose);
      res.off("finish", onFinish);
      res.off("timeout", onTimeout);
      // the server puts its own time for idle connections in place; a socket without one must not keep ours
      if (socket?.timeout === sourceMs) socket.setTimeout(0);
      for (const done of pending) done(false);
      pending.clear();
    },
  };
}

/** Stands for the last chunk among those under way. */
const lastChunk = (): void => {};
