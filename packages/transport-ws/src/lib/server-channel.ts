import { SluiceError } from "@sluice/core";
import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";
import type { RawData, WebSocket } from "ws";
import { closings, type Closing } from "./closing.ts";
import { literalCapabilities } from "./literal-capabilities.ts";
import { createTokenBucket, type MessageRate, type TokenBucket } from "./message-rate.ts";
import { readMessage } from "./read-message.ts";

/** What one connection may cost. */
export interface ChannelLimits {
  /** Bytes that may wait for a slow peer before it is given up. */
  readonly maxBufferedBytes: number;
  readonly messageRate: MessageRate;
}

/** One connection as the SDK sees it. A class because there are thousands of them. */
export class ServerChannel implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport["onmessage"]>;
  /** Called whenever the last unanswered request was answered. */
  onidle?: () => void;
  readonly #socket: WebSocket;
  readonly #maxBufferedBytes: number;
  readonly #bucket: TokenBucket;
  readonly #unanswered = new Set<RequestId>();
  #closing: Closing = closings.done;
  #pause: NodeJS.Timeout | undefined;

  constructor(socket: WebSocket, { maxBufferedBytes, messageRate }: ChannelLimits) {
    this.#socket = socket;
    this.#maxBufferedBytes = maxBufferedBytes;
    this.#bucket = createTokenBucket(messageRate);
  }

  /** No request is waiting for its answer. Subscriptions do not count: they last as long as the connection. */
  get isIdle(): boolean {
    return this.#unanswered.size === 0;
  }

  /** True while nothing is read because the peer was too fast. */
  get isPaused(): boolean {
    return this.#pause !== undefined;
  }

  async start(): Promise<void> {
    this.#socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    // each is answered, and who does not read the answers could have them pile up
    this.#socket.on("ping", () => this.#spend());
    this.#socket.on("pong", () => this.#spend());
    this.#socket.on("close", () => {
      clearTimeout(this.#pause);
      this.#unanswered.clear();
      this.onclose?.();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { bufferedAmount } = this.#socket;
    if (bufferedAmount > this.#maxBufferedBytes) {
      this.end(closings.slow);
      throw new SluiceError("interrupted", "ws: send: the peer takes nothing; it was given up");
    }
    await this.#write(JSON.stringify(message));
    if (!("method" in message)) this.#settle(message.id!);
  }

  /** Ends the connection for a reason. The first reason counts. */
  end(closing: Closing): void {
    this.#closing = closing;
    this.#resume();
    this.#socket.close(closing.code, closing.reason);
  }

  /** What the SDK calls when it is done with the connection. */
  async close(): Promise<void> {
    this.end(this.#closing);
  }

  #write(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.send(text, (error) =>
        error
          ? reject(
              new SluiceError("interrupted", "ws: send: the connection is gone", { cause: error }),
            )
          : resolve(),
      );
    });
  }

  #receive(data: RawData, isBinary: boolean): void {
    // what came in behind the message that ended the connection
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (isBinary) return this.end(closings.binary);
    const { message, fault } = readMessage((data as Buffer).toString());
    if (fault) {
      const error = { code: fault.code, message: fault.message };
      this.#write(JSON.stringify({ jsonrpc: "2.0", id: null, error })).catch(() => {});
      return this.end(fault.closing);
    }
    this.#spend();
    this.#note(message);
    this.onmessage?.(literalCapabilities(message));
  }

  #note(message: JSONRPCMessage): void {
    if (!("method" in message)) return;
    if (message.method === "notifications/cancelled")
      // the SDK answers no request that was cancelled
      this.#settle(message.params?.["requestId"] as RequestId);
    else if ("id" in message && message.method !== "subscriptions/listen")
      this.#unanswered.add(message.id);
  }

  #settle(id: RequestId): void {
    if (this.#unanswered.delete(id) && this.isIdle) this.onidle?.();
  }

  /** Counts one frame. Above the rate nothing more is read for a while: the peer's own send buffer is where the rest waits. */
  #spend(): void {
    const waitMs = this.#bucket.take(performance.now());
    if (waitMs === 0 || this.#socket.readyState !== this.#socket.OPEN) return;
    clearTimeout(this.#pause);
    this.#socket.pause();
    this.#pause = setTimeout(() => this.#resume(), waitMs).unref();
  }

  #resume(): void {
    if (this.#pause === undefined) return;
    clearTimeout(this.#pause);
    this.#pause = undefined;
    this.#socket.resume();
  }
}
