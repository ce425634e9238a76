import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { BinaryRef } from "@sluice/core/internal";
import {
  decodeStreamId,
  type Inbox,
  type IncomingStream,
  streamIdBytes,
} from "@sluice/binary-transfer/internal";

interface FrameControl {
  credit(streamId: string, bytes: number): void;
  abort(streamId: string, reason: SluiceErrorCode): void;
}

interface Receiving {
  readonly incoming: IncomingStream;
  left: number;
  /** Bytes that the reader took since the last credit. */
  uncredited: number;
  creditedAt: number;
  /** Bytes that the sender may not send yet. */
  withheld: number;
}

interface FrameInletOptions {
  /** Gives the inbox, which is made with the inlet's own callbacks. */
  readonly inbox: () => Inbox;
  readonly windowBytes: number;
  /** Whether reading can pause; where it cannot, every sender is held to the window. */
  readonly canPause: () => boolean;
  readonly control: FrameControl;
}

/** Streams of one connection on their way in. */
export class FrameInlet {
  readonly #options: FrameInletOptions;
  readonly #arriving = new Map<string, Receiving>();

  constructor(options: FrameInletOptions) {
    this.#options = options;
  }

  /** Begins a stream that a message announced, or tells its sender that it is not wanted. */
  begin(ref: BinaryRef): void {
    const { streamId, size } = ref;
    try {
      const incoming = this.#options.inbox().begin(streamId);
      const withheld = Math.max(0, size - this.#options.windowBytes);
      this.#arriving.set(streamId, {
        incoming,
        left: size,
        uncredited: 0,
        creditedAt: performance.now(),
        withheld,
      });
      if (size === 0) incoming.end();
    } catch (error) {
      if (ref.interleave)
        this.#options.control.abort(streamId, SluiceError.is(error) ? error.code : "internal");
    }
  }

  /**
   * Takes a frame. Gives a promise if the connection must not be read until it settles: that holds a sender without
   * credit. Throws `protocol` for a frame without a stream id, and `not_found` for one of a stream that was not
   * announced or has ended.
   */
  take(frame: Uint8Array): Promise<void> | undefined {
    if (frame.length < streamIdBytes)
      throw new SluiceError("protocol", "ws: a binary frame is too short for a stream id");
    const streamId = decodeStreamId(frame);
    const entry = this.#arriving.get(streamId);
    if (entry) return this.#write(entry, frame.subarray(streamIdBytes));
    throw new SluiceError(
      "not_found",
      `ws: a binary frame belongs to stream ${streamId}, which has ended or was never announced`,
    );
  }

  drop(streamId: string, reason: SluiceErrorCode): void {
    const error = new SluiceError(reason, `ws: the sender gave up stream ${streamId}`);
    this.#arriving.get(streamId)?.incoming.fail(error);
  }

  /** For the inbox: a reader took bytes. */
  onRead(streamId: string, bytes: number): void {
    const entry = this.#arriving.get(streamId);
    if (!entry?.incoming.ref.interleave || entry.withheld === 0) return;
    entry.uncredited += bytes;
    const now = performance.now();
    // so that the sender takes no slow reader for one that stopped
    const isOverdue = now - entry.creditedAt >= maxCreditDelayMs;
    if (
      !isOverdue &&
      entry.uncredited < this.#options.windowBytes / 2 &&
      entry.uncredited < entry.withheld
    )
      return;
    entry.creditedAt = now;
    this.#options.control.credit(streamId, entry.uncredited);
    entry.withheld = Math.max(0, entry.withheld - entry.uncredited);
    entry.uncredited = 0;
  }

  /** For the inbox: a transfer has ended. */
  onEnd(streamId: string, error?: unknown): void {
    const entry = this.#arriving.get(streamId);
    this.#arriving.delete(streamId);
    if (error === undefined || !entry || entry.left <= 0 || !entry.incoming.ref.interleave) return;
    this.#options.control.abort(streamId, SluiceError.is(error) ? error.code : "interrupted");
  }

  /** Holds a sender with credit to its window, and makes one without wait. */
  #write(entry: Receiving, chunk: Uint8Array): Promise<void> | undefined {
    const { incoming } = entry;
    const { streamId } = incoming.ref;
    const isHeld = incoming.ref.interleave === true || !this.#options.canPause();
    if (isHeld && incoming.queuedBytes + chunk.length > this.#options.windowBytes) {
      incoming.fail(new SluiceError("protocol", `ws: stream ${streamId} overran its window`));
      return undefined;
    }
    entry.left -= chunk.length;
    const room = incoming.write(chunk);
    if (entry.left === 0) incoming.end();
    return isHeld ? undefined : room;
  }
}

/** Longest time without a credit. It is shorter than the sender's patience. */
const maxCreditDelayMs = 5_000;
