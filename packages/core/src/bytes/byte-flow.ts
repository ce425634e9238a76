import { onAbort } from "../async/on-abort.ts";

/**
 * Writes a chunk: for good or, with `release`, out of memory that is lent until that is called. Chunks of one block come
 * with the same `release`, which is called once for each. A promise means: no more until it resolves.
 */
export type WriteChunk = (chunk: Uint8Array, release?: () => void) => Promise<void> | void;

/** Memory that chunks may be lent in: as many blocks, in turn, as are not lent. */
export interface Lending {
  readonly blocks: number;
  readonly blockBytes: number;
  /** Gives a block, of `blockBytes` or fewer, when the first byte is read into one. Default: new memory. */
  readonly allocate?: ((bytes: number) => Uint8Array) | undefined;
}

/** Bytes that are pushed to their reader. Pumped to the end or cancelled, and either only once. */
export interface ByteFlow {
  /**
   * Gives every chunk to `write`, one after the other, and waits where it returns a promise.
   * Resolves after the last byte; rejects when the source fails, and with errors of `write`, after
   * releasing the source. With `lending`, a flow that can reads only into that memory; a `write`
   * that takes lent chunks returns a promise before all blocks are lent.
   */
  pump(write: WriteChunk, lending?: Lending): Promise<void>;
  /**
   * Gives up the source, even while it is pumped, which then rejects; nothing is read into lent
   * memory any more. Idempotent, and a no-op after the end.
   */
  cancel(reason?: unknown): void;
}

const flows = new WeakMap<ReadableStream<Uint8Array>, ByteFlow>();

/**
 * A stream of the bytes of a flow, for readers that know streams only. It pumps nothing before the first read, and a
 * chunk only when one is read; its reader owns the chunks. An abort errors it at once with `signal.reason`, even
 * while it is not read.
 */
export function createFlowBody(flow: ByteFlow, signal?: AbortSignal): ReadableStream<Uint8Array> {
  let controller: ReadableStreamDefaultController<Uint8Array>;
  let goOn: (() => void) | undefined;
  let begun = false;
  let ended = false;
  let stopListening: (() => void) | undefined;

  function end(): boolean {
    if (ended) return false;
    ended = true;
    stopListening?.();
    return true;
  }
  function giveUp(reason: unknown): void {
    flow.cancel(reason);
    goOn?.();
  }
  function fail(reason: unknown): void {
    if (end()) controller.error(reason);
  }
  function write(chunk: Uint8Array, release?: () => void): Promise<void> | undefined {
    const ownChunk = release ? new Uint8Array(chunk) : chunk;
    release?.();
    if (ended || ownChunk.byteLength === 0) return undefined;
    // before the chunk: a second read that waits asks for more at once
    const read = new Promise<void>((resolve) => (goOn = resolve));
    controller.enqueue(ownChunk);
    return read;
  }
  async function run(): Promise<void> {
    try {
      await flow.pump(write);
      if (end()) controller.close();
    } catch (error) {
      fail(error);
    }
  }

  const body = new ReadableStream<Uint8Array>(
    {
      start(given) {
        controller = given;
        stopListening = onAbort(signal, (reason) => {
          fail(reason);
          giveUp(reason);
        });
      },
      pull() {
        if (begun) return goOn?.();
        begun = true;
        flows.delete(body);
        return void run();
      },
      cancel(reason: unknown) {
        if (end()) giveUp(reason);
      },
    },
    { highWaterMark: 0 },
  );
  flows.set(body, signal ? untilEnd(flow, end) : flow);
  return body;
}

/** A flow that calls `end` when it ends. */
function untilEnd(flow: ByteFlow, end: () => void): ByteFlow {
  return {
    async pump(write, lending) {
      try {
        await flow.pump(write, lending);
      } finally {
        end();
      }
    },
    cancel(reason) {
      end();
      flow.cancel(reason);
    },
  };
}

/**
 * Takes a stream as a flow: the one that it was made of, as long as nothing was read, else one that reads it. No other
 * reader can read the stream from then on.
 */
export function flowOf(body: ReadableStream<Uint8Array>): ByteFlow {
  const reader = body.getReader();
  const flow = flows.get(body);
  if (!flow) return flowOfReader(reader);
  flows.delete(body);
  return flow;
}

function flowOfReader(reader: ReadableStreamDefaultReader<Uint8Array>): ByteFlow {
  const cancel = (reason?: unknown): void => void reader.cancel(reason).catch(() => {});
  return {
    async pump(write) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return;
          await write(value);
        }
      } catch (error) {
        cancel(error);
        throw error;
      }
    },
    cancel,
  };
}
