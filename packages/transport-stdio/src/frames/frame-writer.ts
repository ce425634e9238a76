import type { Writable } from "node:stream";
import { discardBytes, type OutgoingStream } from "@sluice/binary-transfer/internal";
import { SluiceError } from "@sluice/core";
import {
  backgroundClock,
  Notifier,
  PeerWatch,
  ResultGap,
  sleep,
  within,
} from "@sluice/core/internal";
import { createChunkReader } from "./chunk-reader.ts";
import { formatFrame } from "./frame-format.ts";
import { OutgoingTransfer } from "./outgoing-transfer.ts";

/** Parts of a writer. */
export interface FrameWriterOptions {
  /** Bytes that the receiver said it takes of an interleaved stream before it asks for more. */
  readonly windowBytes: () => number;
  /** Milliseconds without progress that end a transfer, and where it is the pipe that takes nothing, everything. */
  readonly stallMs: number;
  /** Bytes of messages that may wait for the pipe. */
  readonly maxBufferedBytes: number;
  /** Nothing more can be sent to the peer: a whole transfer broke in its middle, or the peer reads nothing. */
  readonly onFatal: (error: unknown) => void;
}

/** Maximum bytes of a chunk. Larger ones are hardly faster, and messages wait for one. */
const largestChunkBytes = 2 ** 19;

/** Words about streams that wait for the pipe: far more than the maximum number of streams needs. */
const maxControls = 4_096;

/** Cost of a waiting message besides its text. */
const messageBytes = 512;

interface WaitingMessage {
  readonly message: object;
  readonly text: string;
  /** Streams that follow whole, right behind the message. */
  readonly whole: readonly OutgoingStream[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes messages and streams to a pipe. Messages go first, then whole transfers right behind theirs,
 * else chunks of the interleaved streams in turn, of which at most two wait in the pipe's buffer.
 */
export class FrameWriter {
  readonly #output: Writable;
  readonly #options: FrameWriterOptions;
  readonly #watch: PeerWatch;
  readonly #gap = new ResultGap();
  readonly #messages: WaitingMessage[] = [];
  #waitingBytes = 0;
  readonly #controls: Buffer[] = [];
  readonly #transfers = new Map<string, OutgoingTransfer>();
  readonly #closed = new AbortController();
  /** Something may have become due. */
  readonly #news = new Notifier();
  /** Ends the waits for bytes that the pipe has not taken yet. */
  readonly #writing = new Set<() => void>();
  /** The chunk before the last one is in the pipe when this resolves. */
  #earlier: Promise<void> = Promise.resolve();

  constructor(output: Writable, options: FrameWriterOptions) {
    this.#output = output;
    this.#options = options;
    this.#watch = new PeerWatch({
      graceMs: options.stallMs,
      onLate: () =>
        options.onFatal(
          new SluiceError(
            "timeout",
            `stdio: the peer read nothing, or too little, for ${options.stallMs} ms`,
          ),
        ),
    });
    void this.#run();
  }

  /**
   * Sends a message, as `text`, and what it refers to. Resolves when the message is in the pipe. Rejects with `interrupted`
   * when the connection is closed, or ends because too many messages wait.
   */
  send(message: object, text: string, streams: readonly OutgoingStream[]): Promise<void> {
    const { signal } = this.#closed;
    // the first of those that wait may be as large as it likes
    const behindBytes = this.#waitingBytes - (this.#messages[0]?.text.length ?? 0);
    if (!signal.aborted && behindBytes > this.#options.maxBufferedBytes)
      this.#options.onFatal(
        new SluiceError("interrupted", "stdio: the peer does not read its messages"),
      );
    if (signal.aborted) {
      for (const stream of streams) discardBytes(stream, signal.reason);
      return Promise.reject(
        new SluiceError("interrupted", "stdio: send: the connection is closed", {
          cause: signal.reason,
        }),
      );
    }
    return new Promise((resolve, reject) => {
      const whole = streams.filter(({ ref }) => !ref.interleave);
      this.#messages.push({ message, text, whole, resolve, reject });
      this.#waitingBytes += text.length + messageBytes;
      const windowBytes = this.#options.windowBytes();
      for (const stream of streams) {
        if (!stream.ref.interleave) continue;
        const transfer = new OutgoingTransfer(stream, {
          windowBytes,
          chunkBytes: Math.max(1, Math.min(largestChunkBytes, Math.floor(windowBytes / 2))),
          stallMs: this.#options.stallMs,
          onReady: () => this.#news.notify(),
        });
        this.#transfers.set(stream.ref.streamId, transfer);
      }
      this.#news.notify();
    });
  }

  control(kind: "credit" | "stop", streamId: string, count = 0): void {
    if (this.#closed.signal.aborted) return;
    if (this.#controls.length >= maxControls)
      return this.#options.onFatal(
        new SluiceError("protocol", "stdio: the peer reads no response to its requests"),
      );
    this.#controls.push(formatFrame({ streamId, count }, kind));
    this.#news.notify();
  }

  /** The receiver of a stream takes more of it. */
  grant(streamId: string, bytes: number): void {
    this.#transfers.get(streamId)?.grant(bytes);
  }

  /** The receiver wants no more of a stream. */
  stop(streamId: string): void {
    const transfer = this.#transfers.get(streamId);
    if (!this.#transfers.delete(streamId)) return;
    transfer?.end("aborted");
  }

  /** Ends transfers in progress. Messages that were sent before still leave, as far as the pipe takes them. */
  close(reason: unknown): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(reason);
    this.#watch.close();
    for (const transfer of this.#transfers.values()) transfer.end("aborted", reason);
    this.#transfers.clear();
    for (const { reject, whole } of this.#messages.splice(0)) {
      for (const stream of whole) discardBytes(stream, reason);
      reject(reason);
    }
    for (const done of this.#writing) done();
    this.#news.notify();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      const control = this.#controls.shift();
      const message = control ? undefined : this.#messages.shift();
      if (control) await this.#write(control);
      else if (message) await this.#sendMessage(message);
      else if (!(await this.#sendChunk())) await this.#news.wait();
    }
  }

  async #sendMessage({ message, text, whole, resolve, reject }: WaitingMessage): Promise<void> {
    this.#waitingBytes -= text.length + messageBytes;
    const gapMs = this.#gap.waitMs(message);
    if (gapMs > 0) await sleep(gapMs, this.#closed.signal).catch(() => {});
    await this.#write(`${text}\n`);
    if (this.#closed.signal.aborted) reject(this.#closed.signal.reason);
    else resolve();
    for (const [at, stream] of whole.entries()) {
      try {
        await this.#sendWhole(stream);
      } catch (error) {
        for (const rest of whole.slice(at + 1)) discardBytes(rest, error);
        // the header promised bytes that are missing: the next ones would be taken for them
        this.#options.onFatal(error);
        return;
      }
    }
  }

  /** Sends a transfer as the RFC has it: a header, and all of the bytes. */
  async #sendWhole(stream: OutgoingStream): Promise<void> {
    const { signal } = this.#closed;
    const { source } = stream;
    const { streamId, size } = stream.ref;
    const reader = createChunkReader(source, size, largestChunkBytes);
    let sentBytes = 0;
    try {
      await this.#write(formatFrame({ streamId, count: size }));
      for (;;) {
        const chunk = await this.#withinStall(reader.next());
        signal.throwIfAborted();
        if (!chunk) break;
        await this.#write(chunk);
        signal.throwIfAborted();
        sentBytes += chunk.length;
      }
      reader.close();
      stream.end({ outcome: "complete", bytes: sentBytes });
    } catch (error) {
      reader.close(error);
      stream.end({ outcome: signal.aborted ? "aborted" : "failed", bytes: sentBytes, error });
      throw error;
    }
  }

  /** Sends something of the stream whose turn it is; false when none has anything to send. */
  async #sendChunk(): Promise<boolean> {
    for (const [streamId, transfer] of this.#transfers) {
      const { due } = transfer;
      if (!due) continue;
      // to the end of the line
      this.#transfers.delete(streamId);
      if (due === "chunk") {
        this.#transfers.set(streamId, transfer);
        const chunk = transfer.take();
        const written = this.#write(formatFrame({ streamId, count: chunk.length }, "data"), chunk);
        await this.#earlier;
        this.#earlier = written;
      } else {
        // only then is every byte on its way
        await this.#earlier;
        await this.#write(formatFrame({ streamId, count: 0 }, due));
        const { aborted, reason } = this.#closed.signal;
        if (aborted) transfer.end("aborted", reason);
        else transfer.end(due === "end" ? "complete" : "failed");
      }
      return true;
    }
    return false;
  }

  /** Resolves when the pipe has taken it, or the connection is closed. */
  async #write(...parts: readonly (string | Uint8Array)[]): Promise<void> {
    const { signal } = this.#closed;
    if (signal.aborted) return;
    const last = parts.length - 1;
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    this.#watch.begin(bytes);
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#writing.delete(done);
        this.#watch.moved(bytes);
        resolve();
      };
      this.#writing.add(done);
      if (last > 0) this.#output.cork();
      for (const [at, part] of parts.entries())
        // an error also comes as an event, and closes the connection
        this.#output.write(part, at === last ? done : undefined);
      if (last > 0) this.#output.uncork();
    });
  }

  #withinStall<Value>(work: Promise<Value>): Promise<Value> {
    const { stallMs } = this.#options;
    return within(work, {
      timeoutMs: stallMs,
      expired: () => new SluiceError("timeout", `stdio: send: nothing moved for ${stallMs} ms`),
      clock: backgroundClock,
    });
  }
}
