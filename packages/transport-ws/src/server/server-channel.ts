import type { IncomingMessage } from "node:http";
import type { BinaryLimits } from "@sluice/binary-transfer/internal";
import { cancelledBy, EXTENSION_ID, readRpc, TurnQueue } from "@sluice/core/internal";
import { SluiceError } from "@sluice/core";
import { isForwarded, ReaderWatch } from "@sluice/core/internal/node";
import type { ByteLease, SentListener } from "@sluice/server/internal";
import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";
import type { RawData, WebSocket } from "ws";
import { createBinaryChannel, type BinaryChannel } from "../binary/binary-channel.ts";
import { closingOf, closings, type Closing } from "../messages/closing.ts";
import { FrameSender } from "../messages/frame-sender.ts";
import { tokenBucket, type MessageRate } from "./connection-limits.ts";

interface ChannelLimits {
  /** Bytes that may wait for a slow peer before it is given up. */
  readonly maxBufferedBytes: number;
  /** Counts them together with those of other connections; given back when the connection is closed. */
  readonly unsent?: ByteLease;
  readonly messageRate: MessageRate;
  /** Absent: no binary frames. */
  readonly binary?: BinaryLimits | undefined;
}

/** One connection as the SDK sees it. A class because there are thousands of them. */
export class ServerChannel implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport["onmessage"]>;
  /** Called when the last unanswered request was answered. */
  onidle?: () => void;
  readonly #socket: WebSocket;
  readonly #maxBufferedBytes: number;
  readonly #takeToken: () => number;
  readonly #watch: ReaderWatch;
  readonly #sender: FrameSender;
  readonly #turns = new TurnQueue();
  readonly #unsent: ByteLease | undefined;
  /** Bytes that responses hold until they are sent. */
  readonly answers: SentAnswers = new SentAnswers();
  readonly #unanswered = new Set<RequestId>();
  #closing: Closing = closings.done;
  #pause: NodeJS.Timeout | undefined;
  /** Streams without credit whose readers are behind. */
  #heldUp = 0;
  readonly #binary: BinaryChannel | undefined;

  constructor(
    socket: WebSocket,
    request: Pick<IncomingMessage, "headers" | "socket">,
    { maxBufferedBytes, unsent, messageRate, binary }: ChannelLimits,
  ) {
    this.#socket = socket;
    this.#maxBufferedBytes = maxBufferedBytes;
    this.#takeToken = tokenBucket(messageRate);
    // pongs say only that the peer is there
    this.#watch = new ReaderWatch({
      socket: () => request.socket,
      isProxy: isForwarded(request.headers),
      onLate: () => socket.terminate(),
    });
    this.#sender = new FrameSender(socket, this.#watch);
    this.#unsent = unsent;
    this.#binary =
      binary &&
      createBinaryChannel("server", binary, {
        sendText: (text) => this.#control(text),
        sendBinary: (frame) => this.#sender.send(frame),
        canPause: true,
        pauseUntil: (room) => void this.#holdUp(room),
        breakOff: () => this.end(closings.fault),
        onError: (error) => this.onerror?.(error as Error),
      });
  }

  /** True when no request waits for its response or for bytes. Subscriptions do not count: they last. */
  get hasNoOpenCall(): boolean {
    return this.#unanswered.size === 0 && this.#binary?.isIdle !== false;
  }

  /** True while nothing is read because the peer was too fast. */
  get isPaused(): boolean {
    return this.#pause !== undefined || this.#heldUp > 0;
  }

  async start(): Promise<void> {
    this.#socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    // each ping is answered, and the responses pile up for a peer that does not read
    this.#socket.on("ping", () => this.#spend());
    this.#socket.on("pong", () => this.#spend());
    this.#socket.on("close", () => {
      clearTimeout(this.#pause);
      this.#watch.close();
      this.#unanswered.clear();
      this.answers.close();
      this.#unsent?.release();
      this.#binary?.close(new SluiceError("interrupted", "ws: the connection is gone"));
      this.#turns.run(() => this.onclose?.());
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const markSent = "method" in message ? undefined : this.answers.sending(message.id!);
    try {
      if (this.#socket.bufferedAmount > this.#maxBufferedBytes) throw this.#giveUp();
      const { text, follow } = this.#binary?.write(message) ?? { text: JSON.stringify(message) };
      const written = this.#write(text);
      if (follow) void this.#goOn(follow());
      await written;
    } finally {
      markSent?.();
    }
    if (!("method" in message)) this.#settle(message.id!);
  }

  #giveUp(cause?: unknown): SluiceError {
    this.end(closings.slow);
    const message = "ws: send: the peer reads nothing; the connection was closed";
    return new SluiceError("interrupted", message, { cause });
  }

  /** Bytes behind a response keep a connection from being idle, and hold up no other message. */
  async #goOn(followed: Promise<number>): Promise<void> {
    const streams = await followed;
    if (streams > 0 && this.hasNoOpenCall) this.onidle?.();
  }

  /** Ends the connection for a reason. The first reason counts. */
  end(closing: Closing): void {
    this.#closing = closing;
    this.#resume();
    this.#socket.close(closing.code, closing.reason);
  }

  /** Called by the SDK when it is done with the connection. */
  async close(): Promise<void> {
    this.end(this.#closing);
  }

  /** Sends a notification of the binary channel. They pile up for a peer that does not read. */
  #control(text: string): void {
    if (this.#socket.bufferedAmount > this.#maxBufferedBytes) this.end(closings.slow);
    else this.#write(text).catch(() => {});
  }

  async #write(text: string): Promise<void> {
    const { length } = text;
    try {
      this.#unsent?.add(length);
    } catch (error) {
      throw this.#giveUp(error);
    }
    try {
      await this.#sender.send(text);
    } finally {
      this.#unsent?.sub(length);
    }
  }

  #receive(data: RawData, isBinary: boolean): void {
    // messages behind the one that ended the connection
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (isBinary) return this.#receiveFrame(data as Buffer);
    const { message: unchecked, fault } = readRpc((data as Buffer).toString());
    if (fault) {
      // an error without an id belongs to no request: the sender would wait for its response in vain
      this.#write(JSON.stringify({ jsonrpc: "2.0", id: null, error: fault })).catch(() => {});
      return this.end(closingOf(fault));
    }
    const message = unchecked as JSONRPCMessage;
    const read = this.#binary?.read(message) ?? { message, isCounted: true };
    if (read.isCounted) this.#spend();
    if (!read.message) return;
    this.#note(read.message);
    const heard = literalCapabilities(read.message);
    this.#turns.run(() => this.onmessage?.(heard));
  }

  #receiveFrame(frame: Uint8Array): void {
    const outcome = this.#binary?.readFrame(frame) ?? "refused";
    if (outcome === "refused") this.end(closings.binary);
    else if (outcome !== "taken") this.#spend();
  }

  #note(message: JSONRPCMessage): void {
    // the SDK answers no request that was cancelled
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) this.#settle(cancelled);
    else if ("method" in message && "id" in message && message.method !== "subscriptions/listen")
      this.#unanswered.add(message.id);
  }

  #settle(id: RequestId): void {
    if (this.#unanswered.delete(id) && this.hasNoOpenCall) this.onidle?.();
  }

  /** Counts one frame. Above the rate the channel stops reading: the rest waits in the peer's own send buffer. */
  #spend(): void {
    const waitMs = this.#takeToken();
    if (waitMs === 0 || this.#socket.readyState !== this.#socket.OPEN) return;
    clearTimeout(this.#pause);
    this.#socket.pause();
    this.#pause = setTimeout(() => this.#resume(), waitMs).unref();
  }

  #resume(): void {
    if (this.#pause === undefined) return;
    clearTimeout(this.#pause);
    this.#pause = undefined;
    if (this.#heldUp === 0) this.#socket.resume();
  }

  /** Reads nothing until there is room, so that a peer without credit waits in its own send buffer. */
  async #holdUp(room: Promise<void>): Promise<void> {
    this.#heldUp += 1;
    this.#socket.pause();
    await room;
    this.#heldUp -= 1;
    if (!this.isPaused) this.#socket.resume();
  }
}

/** Keeps what the responses of one connection hold until they are sent. */
export class SentAnswers implements SentListener {
  readonly #kept = new Map<RequestId, (() => void)[]>();
  #isClosed = false;

  onSent(id: RequestId, release: () => void): void {
    if (this.#isClosed) return release();
    const others = this.#kept.get(id);
    if (others) others.push(release);
    else this.#kept.set(id, [release]);
  }

  /** A response is about to be sent: gives the function to call when it is. */
  sending(id: RequestId): () => void {
    const releases = this.#kept.get(id) ?? [];
    this.#kept.delete(id);
    return () => {
      for (const release of releases) release();
    };
  }

  close(): void {
    this.#isClosed = true;
    for (const releases of this.#kept.values()) for (const release of releases) release();
    this.#kept.clear();
  }
}

/**
 * Says what a legacy client declared in the literal field of SEP-2532 again as an extension, which
 * the SDK passes on: it drops the field itself.
 */
function literalCapabilities<Message extends object>(message: Message): Message {
  const { method, params } = message as { method?: unknown; params?: { capabilities?: unknown } };
  if (method !== "initialize") return message;
  const { resourceStreaming, extensions, ...others } = (params?.capabilities ?? {}) as {
    resourceStreaming?: unknown;
    extensions?: Record<string, unknown>;
  };
  if (resourceStreaming === undefined || extensions?.[EXTENSION_ID] !== undefined) return message;
  const capabilities = {
    ...others,
    extensions: { ...extensions, [EXTENSION_ID]: resourceStreaming },
  };
  return { ...message, params: { ...params, capabilities } };
}
