import { SluiceError, type Source } from "@sluice/core";
import {
  backgroundClock,
  type BinaryRef,
  definedMembers,
  discardSource,
} from "@sluice/core/internal";
import type { TransferResult } from "@sluice/server/internal";

/** A source that knows how much it gives. */
export interface SizedSource {
  /** Use one of its faces, once. */
  readonly source: Source;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 in hex, where it is known. */
  readonly checksum?: string;
}

/** Bytes that a message is going to refer to. */
export interface OutgoingBytes extends SizedSource {
  /** Called once with the result, whatever happens. */
  end?(result: TransferResult): void;
}

/** Bytes whose message goes out now: send exactly `ref.size` of them, or fail. */
export interface OutgoingStream {
  readonly ref: BinaryRef;
  readonly source: Source;
  /**
   * Reports the result and releases the stream's permit. Call it once, after the last byte or instead of it, and let go
   * of `source` yourself; later calls change nothing.
   */
  end(result: TransferResult): void;
}

/** Limits of outstanding transfers on one connection. */
export interface OutboxOptions {
  /** Streams that wait for their message or are being sent. More are `throttled`. Default 16. */
  readonly maxStreams?: number;
  /** Milliseconds that a stream waits for its message. Default 60,000. */
  readonly unsentMs?: number;
}

interface WaitingBytes {
  readonly stream: OutgoingStream;
  readonly stopTimer: () => void;
}

/** Streams that messages to one peer refer to. Each is used once. */
export class Outbox {
  readonly #maxStreams: number;
  readonly #unsentMs: number;
  readonly #offers = new Map<string, WaitingBytes>();
  #places = 0;
  #closedBy: { readonly reason: unknown } | undefined;

  constructor({ maxStreams = 16, unsentMs = 60_000 }: OutboxOptions = {}) {
    this.#maxStreams = maxStreams;
    this.#unsentMs = unsentMs;
  }

  /**
   * Takes charge of bytes and gives the reference for a message, with a new random id. When the
   * message is not sent in time the bytes are discarded. Throws `throttled` when all places are
   * taken and `interrupted` when the connection is gone; the bytes are then discarded as well.
   */
  offer(
    bytes: OutgoingBytes,
    { interleave = false }: { readonly interleave?: boolean } = {},
  ): BinaryRef {
    const refusal = this.#closedBy
      ? new SluiceError("interrupted", "binary: send: the connection is gone", {
          cause: this.#closedBy.reason,
        })
      : this.#places >= this.#maxStreams
        ? new SluiceError(
            "throttled",
            `binary: send: ${this.#places} streams are already in progress`,
            {
              retryAfterMs: 1_000,
            },
          )
        : undefined;
    if (refusal) {
      discardBytes(bytes, refusal);
      throw refusal;
    }
    this.#places += 1;
    const { size, checksum, source } = bytes;
    const ref: BinaryRef = definedMembers({
      streamId: crypto.randomUUID(),
      size,
      checksum,
      interleave: interleave ? (true as const) : undefined,
    });
    let hasEnded = false;
    const stream: OutgoingStream = {
      ref,
      source,
      end: (result) => {
        if (hasEnded) return;
        hasEnded = true;
        this.#places -= 1;
        bytes.end?.(result);
      },
    };
    const stopTimer = backgroundClock.schedule(() => {
      this.#offers.delete(ref.streamId);
      discardBytes(stream, new SluiceError("expired", "binary: send: the message was never sent"));
    }, this.#unsentMs);
    this.#offers.set(ref.streamId, { stream, stopTimer });
    return ref;
  }

  /** The stream of an id that a message names which goes out now; `undefined` when there is none (any more). */
  claim(streamId: string): OutgoingStream | undefined {
    const offer = this.#offers.get(streamId);
    if (!offer) return undefined;
    this.#offers.delete(streamId);
    offer.stopTimer();
    return offer.stream;
  }

  /** Discards what waits. Streams that were claimed are their sender's to end. */
  close(reason: unknown): void {
    this.#closedBy ??= { reason };
    for (const { stream, stopTimer } of this.#offers.values()) {
      stopTimer();
      discardBytes(stream, reason);
    }
    this.#offers.clear();
  }
}

/** Lets go of bytes that are not going to be sent. */
export function discardBytes(bytes: Pick<OutgoingBytes, "source" | "end">, error: unknown): void {
  void discardSource(bytes.source, error);
  bytes.end?.({ outcome: "aborted", bytes: 0, error });
}
