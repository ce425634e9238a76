import { SluiceError } from "@sluice/core";
import {
  type BinaryRef,
  ByteQueue,
  createSha256,
  definedMembers,
  IdleTimer,
  ThroughputBudget,
} from "@sluice/core/internal";
import { createBody } from "@sluice/storage/plugin";

interface IncomingStreamOptions {
  /** Bytes that wait for the reader before a writer has to. */
  readonly windowBytes: number;
  /**
   * Milliseconds without a byte, or with bytes that are not read, that end the transfer with
   * `timeout`; so does waiting as long for less than 4 KiB a second.
   */
  readonly idleMs: number;
  /** Bytes came. */
  readonly onWrite?: () => void;
  /** Bytes that the reader took just now. */
  readonly onRead?: (bytes: number) => void;
  /** It has ended: no more bytes are wanted. `error` when it did not end well. */
  readonly onEnd: (error?: unknown) => void;
}

/**
 * One transfer that comes in: a transport writes, the application reads. Whatever is wrong with the
 * bytes ends this transfer for the reader with a named error, and is never thrown at the transport.
 */
export class IncomingStream {
  readonly ref: BinaryRef;
  #options: IncomingStreamOptions;
  readonly #queue = new ByteQueue();
  readonly #hash;
  #received = 0;
  readonly #budget: ThroughputBudget;
  readonly #idle: IdleTimer;
  #askedAt = 0;
  /** Set once it has ended. */
  #outcome: { readonly error?: unknown } | undefined;
  /** The sender is through: no more bytes come. */
  #isComplete = false;
  #wakeReader: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;
  #room: Promise<void> | undefined;

  constructor(ref: BinaryRef, options: IncomingStreamOptions) {
    this.ref = ref;
    this.#options = options;
    this.#hash = ref.checksum === undefined ? undefined : createSha256();
    this.#budget = new ThroughputBudget(options.idleMs);
    this.#idle = new IdleTimer(options.idleMs, () => this.fail(this.#late()));
  }

  get isOver(): boolean {
    return this.#outcome !== undefined;
  }

  /** True when the sender is through and every byte is here, read or not. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  get queuedBytes(): number {
    return this.#queue.bytes;
  }

  /**
   * Takes bytes, which belong to the reader from now on. Resolves when there is room for more, even
   * when they are no longer wanted; `undefined` means at once.
   */
  write(chunk: Uint8Array): Promise<void> | undefined {
    if (chunk.length > 0) this.#options.onWrite?.();
    if (this.#outcome || chunk.length === 0) return undefined;
    // the time before the reader asks is its own
    const since = this.#wakeReader
      ? Math.max(this.#askedAt, this.#idle.touchedAt)
      : performance.now();
    this.#budget.spend(performance.now() - since, chunk.length);
    this.touch();
    this.#received += chunk.length;
    if (this.#budget.leftMs < 0) {
      this.fail(new SluiceError("timeout", `binary: ${this.#name}: it arrives too slowly`));
      return undefined;
    }
    if (this.#isComplete || this.#received > this.ref.size) {
      this.fail(new SluiceError("protocol", `binary: ${this.#name}: more bytes than announced`));
      return undefined;
    }
    this.#hash?.update(chunk);
    this.#queue.push(chunk);
    this.#wake("reader");
    if (this.#queue.bytes < this.#options.windowBytes) return undefined;
    // one promise for all writes until then
    this.#room ??= new Promise((resolve) => (this.#wakeWriter = resolve));
    return this.#room;
  }

  /** Resets the idle time: the sender is busy with another stream. */
  touch(): void {
    this.#idle.touch();
  }

  /** Says that all bytes are written. Checks size and checksum. */
  end(): void {
    if (this.#outcome || this.#isComplete) return;
    if (this.#received < this.ref.size)
      return this.fail(
        new SluiceError(
          "interrupted",
          `binary: ${this.#name}: ended after ${this.#received} of ${this.ref.size} bytes`,
        ),
      );
    if (this.#hash && this.#hash.digest() !== this.ref.checksum)
      return this.fail(
        new SluiceError("corrupt", `binary: ${this.#name}: its SHA-256 is wrong; ask for it again`),
      );
    this.#isComplete = true;
    this.touch();
    this.#wake("reader");
    if (this.#queue.bytes === 0) this.#finish({});
  }

  /** Ends it with an error for the reader. Queued bytes are dropped. */
  fail(error: unknown): void {
    if (this.#outcome) return;
    this.#queue.clear();
    this.#finish({ error });
  }

  /** Fails unless all bytes are here: the connection is gone. */
  close(reason: unknown): void {
    if (!this.#isComplete) this.fail(reason);
  }

  /** Ends a complete one before it was read, and gives its bytes. */
  settle(): Uint8Array {
    const bytes = this.#queue.join();
    this.#finish({});
    return bytes;
  }

  /** Lets go of the connection, which may close before the reader ends. */
  detach(): void {
    const { windowBytes, idleMs } = this.#options;
    this.#options = { windowBytes, idleMs, onEnd() {} };
  }

  /**
   * The bytes for the application, once. A clean end means that size and checksum were right. Errors
   * with `interrupted` (too short, or the sender gave up), `protocol` (too long), `corrupt`
   * (checksum), `timeout`, or `signal.reason`.
   */
  read(signal?: AbortSignal): ReadableStream<Uint8Array> {
    return createBody(
      definedMembers({
        next: () => this.#next(),
        release: (reason: unknown) =>
          this.fail(reason ?? new SluiceError("interrupted", `binary: ${this.#name}: cancelled`)),
        signal,
      }),
    );
  }

  async #next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.#queue.shift();
      if (chunk) {
        this.#took(chunk.length);
        return chunk;
      }
      if (this.#outcome) {
        if ("error" in this.#outcome) throw this.#outcome.error;
        return undefined;
      }
      this.#askedAt = performance.now();
      await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    }
  }

  #took(bytes: number): void {
    this.touch();
    this.#options.onRead?.(bytes);
    if (this.#queue.bytes < this.#options.windowBytes) this.#wake("writer");
    if (this.#isComplete && this.#queue.bytes === 0) this.#finish({});
  }

  #finish(outcome: { readonly error?: unknown }): void {
    this.#outcome = outcome;
    this.#idle.stop();
    this.#wake("reader");
    this.#wake("writer");
    const { onEnd } = this.#options;
    this.detach();
    onEnd(outcome.error);
  }

  #wake(end: "reader" | "writer"): void {
    const wake = end === "reader" ? this.#wakeReader : this.#wakeWriter;
    if (end === "reader") this.#wakeReader = undefined;
    else this.#wakeWriter = this.#room = undefined;
    wake?.();
  }

  #late(): SluiceError {
    const { idleMs } = this.#options;
    const what = this.#queue.bytes > 0 ? "no reader took it" : "nothing came";
    return new SluiceError("timeout", `binary: ${this.#name}: ${what} for ${idleMs} ms`);
  }

  get #name(): string {
    return `stream ${this.ref.streamId}`;
  }
}
