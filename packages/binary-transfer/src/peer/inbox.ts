import { SluiceError } from "@sluice/core";
import type { BinaryRef } from "@sluice/core/internal";
import { IncomingStream } from "./incoming-stream.ts";
import { forgetEnded, isUntaken, offerTransfer, rememberEnding, takeTransfer } from "./untaken.ts";

/** Limits of binary transfer on a connection. */
export interface BinaryLimits {
  /** Largest transfer in bytes, either way. Default 1 GiB. */
  readonly maxBinaryBytes?: number;
  /** Transfers at once, each way. More are refused with `throttled`. Default 16. */
  readonly maxStreams?: number;
  /** Bytes of one transfer that wait for their reader. Default 1 MiB. */
  readonly windowBytes?: number;
  /** Milliseconds without a byte, or with bytes that are not read, that end a transfer. Default 30,000. */
  readonly idleMs?: number;
}

/** Limits of one connection. */
export interface InboxOptions extends Omit<BinaryLimits, "maxBinaryBytes"> {
  /** Bytes of one transfer. A larger one is refused with `too_large`. */
  readonly maxBinaryBytes: number;
  /** Bytes that a reader took: where the transport has credit, the sender may send as many again. */
  readonly onRead?: (streamId: string, bytes: number) => void;
  /** A transfer has ended; with an `error`, the sender need not send the rest. */
  readonly onEnd?: (streamId: string, error?: unknown) => void;
}

/** Ids of ended transfers that still count as used. */
const rememberedIds = 1_024;

interface Expected {
  readonly incoming: IncomingStream;
  readonly handle: string;
  hasBegun: boolean;
}

/** Transfers that messages of one peer announced. An id works once. */
export class Inbox {
  readonly #options: InboxOptions;
  readonly #maxStreams: number;
  readonly #windowBytes: number;
  readonly #idleMs: number;
  readonly #expected = new Map<string, Expected>();
  readonly #used = new Set<string>();
  #closedBy: { readonly reason: unknown } | undefined;
  /** Handles of transfers that ended before the application opened them: a late reader learns why. */
  readonly #missedHandles: string[] = [];

  constructor(options: InboxOptions) {
    this.#options = options;
    const { maxStreams = 16, windowBytes = 2 ** 20, idleMs = 30_000 } = options;
    this.#maxStreams = maxStreams;
    this.#windowBytes = windowBytes;
    this.#idleMs = idleMs;
  }

  /**
   * Notes what a message announces and gives the handle under which the application finds it
   * ({@link takeTransfer}). Throws `too_large`, `throttled`, `protocol` (the id was used before)
   * and `interrupted` (the connection is gone): bytes under the id are then to be dropped.
   */
  expect(ref: BinaryRef): string {
    const { streamId, size } = ref;
    const what = `binary: stream ${streamId}`;
    if (this.#closedBy)
      throw new SluiceError("interrupted", `${what}: the connection is gone`, {
        cause: this.#closedBy.reason,
      });
    // `used` may have forgotten a stream that is still in progress
    if (this.#used.has(streamId) || this.#expected.has(streamId))
      throw new SluiceError("protocol", `${what}: the id was used before`);
    this.#used.add(streamId);
    if (this.#used.size > rememberedIds) this.#used.delete(this.#used.values().next().value!);
    if (size > this.#options.maxBinaryBytes)
      throw new SluiceError(
        "too_large",
        `${what}: larger than ${this.#options.maxBinaryBytes} bytes`,
        { size },
      );
    if (this.#expected.size >= this.#maxStreams)
      throw new SluiceError("throttled", `${what}: ${this.#maxStreams} others are in progress`);
    const handle = crypto.randomUUID();
    const incoming = new IncomingStream(ref, {
      windowBytes: this.#windowBytes,
      idleMs: this.#idleMs,
      // all share a connection: streams that wait for the sender wait as long as this one takes
      onWrite: () => {
        for (const { incoming: other } of this.#expected.values())
          if (other !== incoming && other.queuedBytes === 0) other.touch();
      },
      onRead: (bytes) => this.#options.onRead?.(streamId, bytes),
      onEnd: (error) => {
        this.#expected.delete(streamId);
        if (isUntaken(handle))
          this.#remember(entry, error === undefined ? { bytes: new Uint8Array() } : { error });
        this.#options.onEnd?.(streamId, error);
      },
    });
    const entry = { incoming, handle, hasBegun: false };
    this.#expected.set(streamId, entry);
    offerTransfer(handle, incoming);
    return handle;
  }

  /**
   * The transfer whose bytes begin now. Throws `not_found` for an id that no message announced, and
   * `protocol` for one that began before, or of another size than announced.
   */
  begin(streamId: string, size?: number): IncomingStream {
    const entry = this.#expected.get(streamId);
    const what = `binary: stream ${streamId}`;
    if (!entry)
      throw this.#used.has(streamId)
        ? new SluiceError("protocol", `${what}: came twice, or after its end`)
        : new SluiceError("not_found", `${what}: no message announced it`);
    const { incoming } = entry;
    const isRepeated = entry.hasBegun;
    entry.hasBegun = true;
    if (!isRepeated && (size === undefined || size === incoming.ref.size)) return incoming;
    const fault = new SluiceError(
      "protocol",
      isRepeated
        ? `${what}: began twice`
        : `${what}: announced with ${incoming.ref.size} bytes, came with ${size}`,
    );
    incoming.fail(fault);
    throw fault;
  }

  /** A transfer that has begun; `undefined` once it ended. */
  arriving(streamId: string): IncomingStream | undefined {
    const entry = this.#expected.get(streamId);
    return entry?.hasBegun ? entry.incoming : undefined;
  }

  /** True for an id that a message announced and whose transfer is not over. */
  isExpected(streamId: string): boolean {
    return this.#expected.has(streamId);
  }

  /** True for an id that a message announced, even when its transfer has ended. */
  wasUsed(streamId: string): boolean {
    return this.#used.has(streamId) || this.#expected.has(streamId);
  }

  /** Ends a transfer that will not come (any more). */
  fail(streamId: string, error: unknown): void {
    this.#expected.get(streamId)?.incoming.fail(error);
  }

  /** Ends those whose bytes are not all here. */
  close(reason: unknown): void {
    this.#closedBy ??= { reason };
    for (const entry of this.#expected.values()) {
      const { incoming, handle } = entry;
      if (!incoming.isComplete) incoming.fail(reason);
      else if (takeTransfer(handle)) this.#remember(entry, { bytes: incoming.settle() });
      else incoming.detach();
    }
  }

  #remember(
    { incoming: { ref }, handle }: Expected,
    end: { readonly bytes: Uint8Array } | { readonly error: unknown },
  ): void {
    rememberEnding(handle, ref, end, this.#idleMs);
    this.#missedHandles.push(handle);
    // so that one connection pushes out nothing of others
    if (this.#missedHandles.length > this.#maxStreams) forgetEnded(this.#missedHandles.shift()!);
  }
}
