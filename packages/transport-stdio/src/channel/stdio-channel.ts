import type { Readable, Writable } from "node:stream";
import type { Outlet } from "@sluice/binary-transfer/client";
import {
  type BinaryPeer,
  createBinaryPeer,
  type IncomingStream,
  outletTo,
} from "@sluice/binary-transfer/internal";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { PeerWatch, readRpc, TurnQueue } from "@sluice/core/internal";
import type { FrameHeader, FrameKind } from "../frames/frame-format.ts";
import { FrameParser, type FrameTaker, type PayloadTaker } from "../frames/frame-parser.ts";
import { FrameWriter } from "../frames/frame-writer.ts";

/** Limits of binary transfer over stdio. */
export interface StdioLimits {
  /** Largest transfer in bytes, in either direction. Default 1 GiB. */
  readonly maxBinaryBytes?: number;
  /** Maximum transfers at the same time, in each direction. Default 16. */
  readonly maxStreams?: number;
  /** Bytes of one incoming transfer that wait for their reader. Default 4 MiB. */
  readonly windowBytes?: number;
  /**
   * Milliseconds after which a transfer is given up when nothing comes, or the peer does not read or take
   * it; and a connection that stops within a frame or a message, or takes nothing. A peer that moves less
   * than 4 KiB a second also uses them up. Default 30,000.
   */
  readonly idleMs?: number;
  /** Bytes of messages that may wait for a peer that does not read; more end the connection. Default 16 MiB. */
  readonly maxBufferedBytes?: number;
  /** Largest message in bytes; a larger one ends the connection. Default 16 MiB. */
  readonly maxMessageBytes?: number;
}

/** Callbacks of a channel to its transport. */
export interface ChannelEvents {
  message(message: object): void;
  /** Something went wrong that concerns one message or transfer. */
  fault(error: Error): void;
  /** The connection has ended; called once. `error` when it broke. */
  closed(error?: Error): void;
}

/** Two pipes, and what binary transfer makes of them. The same on both ends. */
export class StdioChannel {
  readonly #peer: BinaryPeer;
  readonly #writer: FrameWriter;
  readonly #parser: FrameParser;
  readonly #events: ChannelEvents;
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #limits: Required<StdioLimits>;
  /** Interleaved streams that come in, and bytes read of them that the sender was not told of yet. */
  readonly #unsaid = new Map<string, { readonly bytes: number; readonly saidAt: number }>();
  /** Whole transfers that stand behind the last message. */
  readonly #whole = new Set<string>();
  /** Within a frame or a message the peer has to continue: nothing else can come. */
  readonly #watch: PeerWatch;
  readonly #turns = new TurnQueue();
  #isClosed = false;

  constructor(
    role: "server" | "client",
    pipes: { readonly input: Readable; readonly output: Writable },
    events: ChannelEvents,
    limits: StdioLimits = {},
  ) {
    this.#limits = {
      maxBinaryBytes: limits.maxBinaryBytes ?? 2 ** 30,
      maxStreams: limits.maxStreams ?? 16,
      windowBytes: limits.windowBytes ?? 2 ** 22,
      idleMs: limits.idleMs ?? 30_000,
      maxBufferedBytes: limits.maxBufferedBytes ?? 2 ** 24,
      maxMessageBytes: limits.maxMessageBytes ?? 2 ** 24,
    };
    const { windowBytes, idleMs, maxBufferedBytes, maxMessageBytes } = this.#limits;
    this.#events = events;
    this.#input = pipes.input;
    this.#output = pipes.output;
    this.#peer = createBinaryPeer({
      ...this.#limits,
      role,
      mode: "stream",
      interleave: { windowBytes },
      onRead: (streamId, bytes) => this.#read(streamId, bytes),
      onEnd: (streamId, error) => this.#ended(streamId, error),
    });
    this.#writer = new FrameWriter(pipes.output, {
      windowBytes: () => this.#peer.terms?.interleave?.windowBytes ?? 0,
      stallMs: idleMs,
      maxBufferedBytes,
      onFatal: (error) => this.close(asError(error)),
    });
    this.#parser = new FrameParser(this.#taker(), { maxLineBytes: maxMessageBytes });
    this.#watch = new PeerWatch({
      graceMs: idleMs,
      onLate: () =>
        this.close(
          new SluiceError(
            "timeout",
            `stdio: half a frame or message, then ${idleMs} ms of nothing, or of too little`,
          ),
        ),
    });
    this.#input.on("data", this.#onData).on("end", this.#onEnd).on("close", this.#onEnd);
    this.#input.on("error", this.#onError);
    this.#output.on("error", this.#onError);
  }

  /** Where bytes go beside messages to the peer; `undefined` when it takes none. */
  get outlet(): Outlet | undefined {
    return outletTo(this.#peer);
  }

  async send(message: object): Promise<void> {
    const { text, streams } = this.#peer.sending(message);
    await this.#writer.send(message, text, streams);
  }

  /** Ends everything in progress, and leaves the pipes open. */
  close(error?: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#watch.close();
    this.#input.off("data", this.#onData).off("end", this.#onEnd).off("close", this.#onEnd);
    this.#input.off("error", this.#onError);
    const reason = error ?? new SluiceError("interrupted", "stdio: the connection was closed");
    this.#writer.close(reason);
    this.#peer.close(reason);
    this.#turns.run(() => this.#events.closed(error));
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#watch.moved(bytes.length);
    try {
      const wait = this.#parser.push(bytes);
      if (!wait) return this.#goOn();
      this.#input.pause();
      wait
        .then(() => {
          this.#goOn();
          return this.#isClosed || this.#input.resume();
        })
        .catch((error: unknown) => this.close(asError(error)));
    } catch (error) {
      this.close(asError(error));
    }
  };

  #goOn(): void {
    if (this.#parser.isWithin) this.#watch.begin();
  }

  readonly #onEnd = (): void =>
    this.close(
      this.#parser.isWithin
        ? new SluiceError("interrupted", "stdio: the pipe ended within a message or a frame")
        : undefined,
    );
  readonly #onError = (error: Error): void =>
    this.close(new SluiceError("interrupted", "stdio: the pipe broke", { cause: error }));

  #taker(): FrameTaker {
    return {
      line: (text) => this.#line(text),
      transfer: (header) => this.#transfer(header),
      transferred: () => this.#transferred(),
      chunk: (header) => this.#chunk(header),
      control: (kind, header) => this.#control(kind, header),
    };
  }

  #line(text: string): number {
    if (this.#isClosed || text.trim() === "") return 0;
    const { message, fault } = readRpc(text);
    if (fault) {
      this.#fault("protocol", `a line is not a message: ${fault.message}`);
      return 0;
    }
    const { message: received, refs } = this.#peer.received(message);
    for (const { streamId, interleave, isRefused } of refs) {
      if (!interleave) this.#whole.add(streamId);
      else if (isRefused) this.#writer.control("stop", streamId);
      else this.#unsaid.set(streamId, { bytes: 0, saidAt: performance.now() });
    }
    // too many of them end it
    if (this.#isClosed) return 0;
    this.#turns.run(() => this.#events.message(received));
    return this.#whole.size;
  }

  #transfer({ streamId, count }: FrameHeader): PayloadTaker | undefined {
    if (!this.#whole.delete(streamId)) {
      this.#fault("not_found", `stream ${streamId} came, which its message does not name`);
      return undefined;
    }
    return this.#begin(streamId, count);
  }

  /** Fails the streams that other frames came in place of. */
  #transferred(): void {
    for (const streamId of this.#whole)
      this.#peer.inbox.fail(
        streamId,
        new SluiceError("protocol", `stdio: stream ${streamId} did not follow its message`),
      );
    this.#whole.clear();
  }

  #chunk({ streamId, count }: FrameHeader): PayloadTaker | undefined {
    const incoming = this.#interleaved(streamId);
    // the sender may not know yet that it has ended
    if (!incoming) return undefined;
    if (incoming.queuedBytes + count > this.#limits.windowBytes)
      incoming.fail(
        new SluiceError("protocol", `stdio: stream ${streamId}: more bytes than were asked for`),
      );
    // there is room, so nothing has to wait
    return { write: (bytes) => void incoming.write(bytes), end() {} };
  }

  #control(kind: Exclude<FrameKind, "data">, { streamId, count }: FrameHeader): void {
    if (kind === "credit") return this.#writer.grant(streamId, count);
    if (kind === "stop") return this.#writer.stop(streamId);
    const incoming = this.#interleaved(streamId);
    if (kind === "end") return incoming?.end();
    this.#unsaid.delete(streamId);
    incoming?.fail(
      new SluiceError("interrupted", `stdio: stream ${streamId}: the sender gave it up; ask again`),
    );
  }

  /** An interleaved stream that is in progress, or begins now. */
  #interleaved(streamId: string): IncomingStream | undefined {
    if (this.#unsaid.has(streamId))
      return this.#peer.inbox.arriving(streamId) ?? this.#begin(streamId);
    if (!this.#peer.inbox.wasUsed(streamId))
      this.#fault("not_found", `stream ${streamId} came, which no message names`);
    return undefined;
  }

  #begin(streamId: string, size?: number): IncomingStream | undefined {
    try {
      return this.#peer.inbox.begin(streamId, size);
    } catch (error) {
      this.#events.fault(asError(error));
      return undefined;
    }
  }

  #read(streamId: string, bytes: number): void {
    const unsaid = this.#unsaid.get(streamId);
    if (unsaid === undefined) return;
    const readBytes = unsaid.bytes + bytes;
    const now = performance.now();
    // a reader that is slow is not to be taken for one that has stopped
    const isDue =
      readBytes >= this.#limits.windowBytes / 4 || now - unsaid.saidAt >= longestUnsaidMs;
    this.#unsaid.set(streamId, isDue ? { bytes: 0, saidAt: now } : { ...unsaid, bytes: readBytes });
    if (isDue) this.#writer.control("credit", streamId, readBytes);
  }

  #ended(streamId: string, error: unknown): void {
    if (this.#unsaid.delete(streamId) && error !== undefined)
      this.#writer.control("stop", streamId);
  }

  #fault(code: SluiceErrorCode, message: string): void {
    this.#events.fault(new SluiceError(code, `stdio: ${message}`));
  }
}

/** A sender needs credit more often than it waits. */
const longestUnsaidMs = 5_000;

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
