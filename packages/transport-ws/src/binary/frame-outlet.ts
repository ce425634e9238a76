import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { onAbort, ThroughputBudget, within } from "@sluice/core/internal";
import {
  encodeStreamId,
  type OutgoingStream,
  streamIdBytes,
} from "@sluice/binary-transfer/internal";

/**
 * Bytes of a stream in one frame. A message never waits for more than one such frame. Frames larger
 * than half of a read by Node are copied together by the receiver, which took 10 times the memory.
 */
const chunkBytes = 32_768;

interface FrameSink {
  /** Resolves when the network took the frame, which may be reused then. Rejects when the connection is gone. */
  send(frame: Uint8Array): Promise<void>;
  /** Tells the receiver, in any way that works, that a stream ends before its last byte. */
  giveUp(stream: OutgoingStream, reason: SluiceErrorCode): void;
}

interface OutgoingFrames {
  readonly stream: OutgoingStream;
  readonly stopped: AbortController;
  /** Bytes that may be sent now. */
  allowance: number;
  sent: number;
  /** Bytes given to the sink. The receiver may have read them before the sink says that they left. */
  handed: number;
  credited: number;
  /** How long the receiver may give no credit. */
  readonly budget: ThroughputBudget;
  wake: (() => void) | undefined;
}

/**
 * Streams of one connection on their way out, chunk by chunk in turn. A stream for which no credit, or too little,
 * comes in `stallMs` is given up.
 */
export class FrameOutlet {
  readonly #sink: FrameSink;
  readonly #stallMs: number;
  readonly #sendings = new Map<string, OutgoingFrames>();
  // one frame at a time is in progress, so one buffer does
  readonly #frame = new Uint8Array(streamIdBytes + chunkBytes);
  #turn: Promise<void> = Promise.resolve();

  constructor(sink: FrameSink, stallMs: number) {
    this.#sink = sink;
    this.#stallMs = stallMs;
  }

  get size(): number {
    return this.#sendings.size;
  }

  /**
   * Sends a stream; a receiver that gives credit takes `windowBytes` before its first. It never
   * rejects: `stream.end` tells how it went.
   */
  async add(stream: OutgoingStream, windowBytes?: number): Promise<void> {
    const { ref } = stream;
    const sending: OutgoingFrames = {
      stream,
      stopped: new AbortController(),
      allowance: windowBytes ?? Infinity,
      sent: 0,
      handed: 0,
      credited: 0,
      budget: new ThroughputBudget(this.#stallMs),
      wake: undefined,
    };
    this.#sendings.set(ref.streamId, sending);
    try {
      await this.#sendAll(sending);
      stream.end({ outcome: "complete", bytes: sending.sent });
    } catch (error) {
      const { aborted } = sending.stopped.signal;
      stream.end({ outcome: aborted ? "aborted" : "failed", bytes: sending.sent, error });
      if (!aborted) this.#sink.giveUp(stream, SluiceError.is(error) ? error.code : "internal");
    } finally {
      this.#sendings.delete(ref.streamId);
    }
  }

  /**
   * The receiver takes this many more bytes. False for a credit of no stream here, or of more bytes
   * than were sent.
   */
  credit(streamId: string, bytes: number): boolean {
    const sending = this.#sendings.get(streamId);
    if (!sending || sending.credited + bytes > sending.handed) return false;
    sending.credited += bytes;
    sending.allowance += bytes;
    sending.wake?.();
    return true;
  }

  /** The receiver wants no more of a stream. */
  drop(streamId: string, reason: SluiceErrorCode): void {
    const error = new SluiceError(reason, `ws: the receiver gave up stream ${streamId}`);
    this.#sendings.get(streamId)?.stopped.abort(error);
  }

  /** Ends all of them: the connection is gone. */
  close(reason: unknown): void {
    for (const { stopped } of this.#sendings.values()) stopped.abort(reason);
  }

  /** Sends one frame behind those that were asked for before. */
  #sendInTurn(sending: OutgoingFrames, chunk: Uint8Array): Promise<void> {
    const { stream, stopped } = sending;
    const ownTurn = this.#turn.then(async () => {
      stopped.signal.throwIfAborted();
      this.#frame.set(encodeStreamId(stream.ref.streamId));
      this.#frame.set(chunk, streamIdBytes);
      sending.handed += chunk.length;
      await this.#sink
        .send(this.#frame.subarray(0, streamIdBytes + chunk.length))
        .catch((error: unknown) => {
          stopped.abort(error);
          throw error;
        });
      return undefined;
    });
    this.#turn = ownTurn.catch(() => {});
    return ownTurn;
  }

  async #sendChunk(sending: OutgoingFrames, chunk: Uint8Array): Promise<void> {
    const { stream, stopped } = sending;
    if (sending.sent + chunk.length > stream.ref.size)
      throw new SluiceError("corrupt", `ws: the source gave more than ${stream.ref.size} bytes`);
    for (let at = 0; at < chunk.length;) {
      while (sending.allowance === 0) {
        stopped.signal.throwIfAborted();
        await nextCredit(sending);
      }
      const piece = chunk.subarray(at, at + Math.min(chunkBytes, sending.allowance));
      await this.#sendInTurn(sending, piece);
      at += piece.length;
      sending.sent += piece.length;
      sending.allowance -= piece.length;
    }
  }

  async #sendAll(sending: OutgoingFrames): Promise<void> {
    const { stream, stopped } = sending;
    const reader = stream.source.body.getReader();
    const stop = (): void => {
      sending.wake?.();
      reader.cancel(stopped.signal.reason).catch(() => {});
    };
    const unlisten = onAbort(stopped.signal, stop);
    try {
      for (let step = await reader.read(); !step.done; step = await reader.read())
        await this.#sendChunk(sending, step.value);
      stopped.signal.throwIfAborted();
      if (sending.sent < stream.ref.size)
        throw new SluiceError(
          "interrupted",
          `ws: the source ended at ${sending.sent} of ${stream.ref.size} bytes`,
        );
    } finally {
      unlisten();
      reader.cancel().catch(() => {});
    }
  }
}

/** Waits until more may be sent, or the stream is stopped. Rejects with `timeout`. */
async function nextCredit(sending: OutgoingFrames): Promise<void> {
  const { budget, credited } = sending;
  const { streamId } = sending.stream.ref;
  const at = performance.now();
  const credit = new Promise<void>((resolve) => (sending.wake = resolve));
  try {
    await within(credit, {
      timeoutMs: Math.max(0, budget.leftMs),
      expired: () => new SluiceError("timeout", `ws: the peer reads nothing of stream ${streamId}`),
    });
  } finally {
    budget.spend(performance.now() - at, sending.credited - credited);
  }
}
