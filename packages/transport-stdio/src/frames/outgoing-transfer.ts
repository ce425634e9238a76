import type { OutgoingStream } from "@sluice/binary-transfer/internal";
import { SluiceError } from "@sluice/core";
import { definedMembers, IdleTimer, ThroughputBudget } from "@sluice/core/internal";
import { createChunkReader, type ChunkReader } from "./chunk-reader.ts";

/** Parts of a transfer. */
export interface OutgoingOptions {
  readonly chunkBytes: number;
  /** Bytes that may be sent before the receiver takes more. */
  readonly windowBytes: number;
  /** Milliseconds without a byte, from the source or to the receiver, that end it with `timeout`. */
  readonly stallMs: number;
  /** There is something to send, or it failed. */
  readonly onReady: () => void;
}

/** One stream that is sent in chunks: it always holds the next one ready, and never waits for it. */
export class OutgoingTransfer {
  readonly stream: OutgoingStream;
  readonly #options: OutgoingOptions;
  readonly #reader: ChunkReader;
  #chunk: Uint8Array | undefined;
  #isThrough = false;
  #failure: { readonly error: unknown } | undefined;
  #credit: number;
  #sent = 0;
  readonly #idle: IdleTimer;
  /** Of the receiver, while there is no credit. */
  readonly #budget: ThroughputBudget;

  constructor(stream: OutgoingStream, options: OutgoingOptions) {
    this.stream = stream;
    this.#options = options;
    this.#credit = options.windowBytes;
    this.#reader = createChunkReader(stream.source, stream.ref.size, options.chunkBytes);
    this.#budget = new ThroughputBudget(options.stallMs);
    this.#idle = new IdleTimer(options.stallMs, () => this.#onIdle());
    void this.#fill();
  }

  /** What to send now: a chunk that there is credit for, the end, or that it failed. */
  get due(): "chunk" | "end" | "abort" | undefined {
    if (this.#failure) return "abort";
    if (this.#chunk) return this.#chunk.length <= this.#credit ? "chunk" : undefined;
    return this.#isThrough ? "end" : undefined;
  }

  /** Takes the chunk that is due. It stays as it is until the one after the next is taken. */
  take(): Uint8Array {
    const chunk = this.#chunk!;
    this.#chunk = undefined;
    this.#credit -= chunk.length;
    this.#sent += chunk.length;
    this.#idle.touch();
    void this.#fill();
    return chunk;
  }

  /** The receiver takes more. */
  grant(bytes: number): void {
    if (this.#chunk && !this.due)
      this.#budget.spend(performance.now() - this.#idle.touchedAt, bytes);
    if (this.#budget.leftMs < 0) this.#fail("it is read too slowly");
    this.#credit = Math.min(this.#credit + bytes, Number.MAX_SAFE_INTEGER);
    this.#idle.touch();
    this.#options.onReady();
  }

  /** Ends it: without an error when every byte is on its way. */
  end(outcome: "complete" | "aborted" | "failed", error?: unknown): void {
    this.#idle.stop();
    this.#reader.close(error);
    const cause = error ?? this.#failure?.error;
    this.stream.end(definedMembers({ outcome, bytes: this.#sent, error: cause }));
  }

  async #fill(): Promise<void> {
    try {
      this.#chunk = await this.#reader.next();
      this.#isThrough = this.#chunk === undefined;
      this.#idle.touch();
    } catch (error) {
      this.#failure ??= { error };
    }
    this.#options.onReady();
  }

  #onIdle(): void {
    // bytes that are due wait for the pipe, which others also use, and which is watched itself
    if (this.due) return this.#idle.touch();
    this.#fail(`nothing moved for ${this.#options.stallMs} ms`);
    this.#options.onReady();
  }

  #fail(why: string): void {
    const what = `stdio: stream ${this.stream.ref.streamId}: ${why}`;
    this.#failure ??= { error: new SluiceError("timeout", what) };
  }
}
