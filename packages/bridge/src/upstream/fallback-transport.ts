import {
  SseError,
  type JSONRPCMessage,
  type Transport,
  type TransportSendOptions,
} from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import { isCall } from "../messages/messages.ts";
import { sentMessage, type SentMessage } from "./bounded-fetch.ts";
import { unreadableAnswer } from "./line-transport.ts";
import { sendFaultOf, unreadableWords } from "./send-fault.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** The two transports of servers behind a URL. */
interface FallbackParts {
  /** Streamable HTTP. */
  readonly newer: () => Transport;
  /** HTTP with SSE (2024-11-05). */
  readonly older: () => Transport;
  /** The server was found to speak the older one before. */
  readonly isOlder: boolean;
  /** The server speaks the older one. */
  readonly onOlder: () => void;
}

/**
 * Streamable HTTP, or the older HTTP with SSE where the server refuses `initialize` with 400, 404 or 405 and opens a
 * stream (MCP 2025-11-25, Transports, Backwards Compatibility). Other messages never change the transport.
 */
export class FallbackTransport implements Transport {
  onmessage?: Transport["onmessage"];
  onerror?: Transport["onerror"];
  onclose?: Transport["onclose"];
  readonly #parts: FallbackParts;
  #current: Transport;
  #isOlder: boolean;

  constructor(parts: FallbackParts) {
    this.#parts = parts;
    this.#isOlder = parts.isOlder;
    this.#current = this.#isOlder ? parts.older() : parts.newer();
  }

  get sessionId(): string | undefined {
    return this.#current.sessionId;
  }

  async start(): Promise<void> {
    this.#listen(this.#current);
    await this.#current.start();
  }

  async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    const sendState = this.#track(message);
    const onRequestStreamEnd = (): void => {
      if (sendState.fault === undefined && sendState.unread !== undefined)
        sendState.fail?.(sendState.unread);
      else options.onRequestStreamEnd?.();
    };
    try {
      await sentMessage.run(sendState, () =>
        this.#current.send(message, { ...options, onRequestStreamEnd }),
      );
      // 202, an empty batch, or answers to other calls: a stream says by itself when it is over
      if (isCall(message) && !this.#isOlder && !sendState.hasStream) onRequestStreamEnd();
    } catch (error) {
      const isFirst = isCall(message) && message.method === "initialize";
      if (this.#isOlder || !isFirst || !isRefusal(error)) throw error;
      await this.#fallBack(error, options.requestSignal);
      await this.#current.send(message, options);
    }
  }

  /** What comes for a message. Only a call has a response that another can take the place of. */
  #track(message: JSONRPCMessage): SentMessage {
    if (!isCall(message)) return { hasStream: false };
    const sendState: SentMessage = {
      hasStream: false,
      fail: (fault) => {
        sendState.fault = fault;
        this.onmessage?.(unreadableAnswer(message.id, fault));
      },
    };
    return sendState;
  }

  /** Throws `refusal` if the server has no stream of the older kind either. */
  async #fallBack(refusal: unknown, signal: AbortSignal | undefined): Promise<void> {
    const older = this.#parts.older();
    this.#listen(older);
    // a transport that was never established is not a connection that ends
    older.onclose = () => {};
    const removeListener = onAbort(signal, () => void older.close());
    try {
      await older.start();
    } catch (error) {
      const isNone = SluiceError.is(error) && error.code === "protocol";
      throw error instanceof SseError || isNone ? refusal : error;
    } finally {
      removeListener();
    }
    const newer = this.#current;
    newer.onclose = () => {};
    newer.onerror = () => {};
    this.#current = older;
    this.#isOlder = true;
    older.onclose = () => this.onclose?.();
    this.#parts.onOlder();
    await newer.close();
  }

  #listen(transport: Transport): void {
    transport.onmessage = (message, extra) => this.onmessage?.(message, extra);
    transport.onerror = (error) => {
      const sendState = sentMessage.getStore();
      // an event of its stream: the response may still come
      if (sendState?.hasStream) sendState.unread ??= unreadableWords(error);
      this.onerror?.(error);
    };
    transport.onclose = () => this.onclose?.();
  }

  setProtocolVersion(version: string): void {
    this.#current.setProtocolVersion?.(version);
  }

  /** Ends the session at the server, where the transport can. */
  async terminateSession(): Promise<void> {
    const terminable = this.#current as { terminateSession?: () => Promise<void> };
    await terminable.terminateSession?.();
  }

  async close(): Promise<void> {
    await this.#current.close();
  }
}

function isRefusal(error: unknown): boolean {
  const fault = sendFaultOf(error, false);
  // an error of JSON-RPC with 400 is the response of a server that speaks Streamable HTTP
  if (fault.kind === "refused") return [400, 404, 405].includes(fault.status ?? 0);
  return fault.kind === "answered" && (fault.status === 404 || fault.status === 405);
}
