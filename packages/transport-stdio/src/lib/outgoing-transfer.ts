import { Pace, type OutgoingStream } from "@sluice/binary-transfer/client";
import { SluiceError } from "@sluice/core";
import { createChunkReader, type ChunkReader } from "./chunk-reader.ts";

/** What a transfer works with. */
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
  #touchedAt = performance.now();
  /** Of the receiver, while there is no credit. */
  readonly #pace: Pace;
  #timer: NodeJS.Timeout;

  constructor(stream: OutgoingStream, options: OutgoingOptions) {
    this.stream = stream;
    this.#options = options;
    this.#credit = options.windowBytes;
    this.#reader = createChunkReader(stream.source, stream.ref.size, options.chunkBytes);
    this.#pace = new Pace(options.stallMs);
    this.#timer = this.#watch(options.stallMs);
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
    this.#touchedAt = performance.now();
    void this.#fill();
    return chunk;
  }

  /** The receiver takes more. */
  grant(bytes: number): void {
    if (this.#chunk && !this.due) this.#pace.spend(performance.now() - this.#touchedAt, bytes);
    if (this.#pace.leftMs < 0) this.#fail("it is taken too slowly");
    this.#credit = Math.min(this.#credit + bytes, Number.MAX_SAFE_INTEGER);
    this.#touchedAt = performance.now();
    this.#options.onReady();
  }

  /** Ends it: without an error when every byte is on its way. */
  end(outcome: "complete" | "aborted" | "failed", error?: unknown): void {
    clearTimeout(this.#timer);
    this.#reader.close(error);
    const cause = error ?? this.#failure?.error;
    this.stream.end({
      outcome,
      bytes: this.#sent,
      ...(cause !== undefined && { error: cause }),
    });
  }

  async #fill(): Promise<void> {
    try {
      this.#chunk = await this.#reader.next();
      this.#isThrough = this.#chunk === undefined;
      this.#touchedAt = performance.now();
    } catch (error) {
      this.#failure ??= { error };
    }
    this.#options.onReady();
  }

  #watch(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      const { stallMs } = this.#options;
      const leftMs = this.#touchedAt + stallMs - performance.now();
      // what is due waits for the pipe, which others use, too, and which is watched itself
      if (leftMs > 0 || this.due) {
        this.#timer = this.#watch(this.due ? stallMs : leftMs);
        return;
      }
      this.#fail(`nothing moved for ${stallMs} ms`);
      this.#options.onReady();
    }, ms).unref();
  }

  #fail(why: string): void {
    const what = `stdio: stream ${this.stream.ref.streamId}: ${why}`;
    this.#failure ??= { error: new SluiceError("timeout", what) };
  }
}
