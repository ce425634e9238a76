import type { ServerResponse } from "node:http";
import { Notifier, watchThroughput, type ThroughputWatch } from "@sluice/core/async";

/** Bounds on how slowly a reader may take its bytes. */
export interface OutflowOptions {
  /**
   * Longest time without the network taking anything, in milliseconds; twice as long while there
   * is nothing to take. The server looks three times meanwhile. Default: 30 s, so it gives a reader up after 30 to 40 s.
   */
  readonly stallTimeoutMs?: number;
  /** Least bytes per second over `rateWindowMs`. Default 4096. */
  readonly minBytesPerSecond?: number;
  /** Default 60 s. */
  readonly rateWindowMs?: number;
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
  const { stallTimeoutMs = 30_000, minBytesPerSecond = 4_096, rateWindowMs = 60_000 } = options;
  const pending = new Set<(flushed: boolean) => void>();
  let isBroken = res.destroyed;
  let isFinished = false;
  let sentBytes = 0;
  const news = new Notifier();
  let tellBroken: (() => void) | undefined;
  let rate: ThroughputWatch | undefined;

  const giveUp = (): void => void res.destroy();
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
  const lookMs = Math.max(1, Math.round(stallTimeoutMs / looks));
  /** Looks in a row at which the network had taken nothing since the one before. */
  let idleLooks = 0;
  let lookedAt = performance.now();
  const onTimeout = (): void => {
    // events have come to rest: the next one starts the time again
    if (mayRest && pending.size === 0) return;
    const now = performance.now();
    // the socket starts its time again, without a word, where the network took a part of a chunk
    const hasMoved = now - lookedAt > 1.9 * lookMs;
    lookedAt = now;
    idleLooks = hasMoved ? 1 : idleLooks + 1;
    // with nothing to take it is the source that is late: storage has a deadline of its own, which says so to the reader
    if (idleLooks >= (pending.size > 0 ? looks : 2 * looks)) return giveUp();
    res.setTimeout(lookMs);
  };
  // the socket's own timer sees every partial write; ours below sees whole chunks
  res.setTimeout(lookMs, onTimeout);

  function begin(chunk: (flushed: boolean) => void, bytes: number): void {
    pending.add(chunk);
    sentBytes += bytes;
    rate ??= watchRate();
    rate.go();
  }

  function watchRate(): ThroughputWatch {
    const rules = { minBytesPerSecond, windowMs: rateWindowMs, holdEndsWindow: mayRest };
    return watchThroughput(rules, () => {
      if (res.socket) return giveUp();
      // without a socket it is the turn of another response
      rate = watchRate();
    });
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
      idleLooks = 0;
      res.write(chunk, (error) => {
        if (error) isBroken = true;
        else rate?.moved(chunk.byteLength);
        idleLooks = 0;
        if (pending.delete(done)) done(true);
        // with nothing under way it is the source that is waited for
        if (pending.size === 0) rate?.hold();
        news.notify();
      });
    },
    fewerThan: (count) => waitWhile(() => pending.size >= count),
    async end(chunk) {
      begin(lastChunk, chunk?.byteLength ?? 0);
      // ended already when the whole answer was sent at once and is still on its way
      if (!res.writableEnded) res.end(chunk);
      await waitWhile(() => !isFinished);
      pending.delete(lastChunk);
    },
    dispose() {
      rate?.stop();
      res.off("close", onClose);
      res.off("finish", onFinish);
      res.off("timeout", onTimeout);
      // the server puts its own time for idle connections in place; a socket without one must not keep ours
      if (socket?.timeout === lookMs) socket.setTimeout(0);
      for (const done of pending) done(false);
      pending.clear();
    },
  };
}

/** Looks within the time that a reader has. */
const looks = 3;

/** Stands for the last chunk among those under way. */
const lastChunk = (): void => {};
